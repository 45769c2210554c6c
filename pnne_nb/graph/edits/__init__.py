"""Changes of a document: ops are applied all or nothing, can be undone, and are announced to observers."""
