"""Checks and prepares what a training is made of, before it starts."""
