"""Writes a program as a Python module and loads it."""
