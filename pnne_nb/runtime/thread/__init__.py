"""Runs and controls the training thread, and decides who may use the model and the random state when."""
