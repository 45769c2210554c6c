"""The subject of an export: a model with its graph, its sizes and example batches."""
