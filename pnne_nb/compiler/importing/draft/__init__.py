"""Collects what an import knows before there is a document: layers, names, descriptions."""
