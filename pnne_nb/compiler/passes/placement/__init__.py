"""Places nodes on devices: by name, or so that a model fits into the memory of several."""
