"""Reads a training that is drawn: model, losses, metrics and optimizer as nodes of one document."""
