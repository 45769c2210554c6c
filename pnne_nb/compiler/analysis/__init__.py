"""Runs a compiled model to learn about it: values, NaN, memory, equality with another model."""
