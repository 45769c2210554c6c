"""Reads torch's own signatures, operator schemas and docstrings."""
