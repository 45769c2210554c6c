"""Shapes, sizes and costs, found by running the model on fake tensors."""
