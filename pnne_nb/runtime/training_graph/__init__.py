"""Training graphs: model, losses, metrics and optimizer as nodes of one document."""
