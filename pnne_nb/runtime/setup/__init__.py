"""Checks and preparation of a training's parts before it starts."""
