"""Changes a document: ops are applied all or nothing, undone, and announced to subscribers."""
