"""Runs the steps from a document to a module, for a whole document or after each edit."""
