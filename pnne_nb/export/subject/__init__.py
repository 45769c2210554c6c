"""What is exported: the model with the graph that drew it, its sizes, and example batches for it."""
