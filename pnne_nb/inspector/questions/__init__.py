"""Answers questions about one answer of a model: why it is so, what would change it, and how a number came about."""
