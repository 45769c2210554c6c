"""Epochs, steps and validation, without threads."""
