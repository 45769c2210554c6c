"""The training's control bar and its plots."""
