"""Finds the parts of an import that equal the module, and keeps the others opaque."""
