"""Builds a model in every form that could be shipped, and measures which is worth it on this machine."""
