"""How a document changes: ops applied all or nothing, undone, and announced to subscribers."""
