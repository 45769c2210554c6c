"""Defines node types: ports, properties, their types and values, and the registry of all of them."""
