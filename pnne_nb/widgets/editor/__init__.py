"""The graph editor."""
