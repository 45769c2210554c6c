"""One training from its start to its end, and what may change meanwhile."""
