"""A step that several processes make together."""
