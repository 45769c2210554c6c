"""The widget for choosing the nodes of a model to convert to lower precision."""
