"""Converts layers of a drawn model to lower precision, and measures at each node what that costs."""
