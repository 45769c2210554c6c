"""The widget that shows which form of a model is worth shipping, while the forms are built and timed."""
