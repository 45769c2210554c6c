"""Converts layers of a graph to lower precision, and measures the error of each node."""
