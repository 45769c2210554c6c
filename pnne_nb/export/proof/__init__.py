"""Proves a written file: run by its own runtime in a fresh process, and compared with the model node by node."""
