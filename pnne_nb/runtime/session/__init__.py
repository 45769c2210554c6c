"""Runs one training from its start to its end, and says what may change meanwhile."""
