"""Deployment forms of a model, and their comparison on this machine."""
