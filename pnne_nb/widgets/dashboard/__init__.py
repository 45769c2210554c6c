"""Shows the training's control bar and its plots."""
