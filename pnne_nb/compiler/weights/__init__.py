"""Weights of a compiled model: reused, renamed, tied, copied, and checked against the memory."""
