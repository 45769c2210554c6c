"""One training from its start to its end, and the changes that it allows while it runs."""
