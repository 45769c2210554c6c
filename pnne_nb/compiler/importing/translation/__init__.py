"""Turns a recording into nodes and edges."""
