"""Rewrites a program so that its source reads as a person would have written it."""
