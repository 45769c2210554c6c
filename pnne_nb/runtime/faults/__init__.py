"""Recognises, locates and explains what goes wrong in a training, and survives it where possible."""
