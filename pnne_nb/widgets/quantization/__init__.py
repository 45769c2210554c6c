"""The widget in which a person chooses which nodes of a model to convert to lower precision."""
