"""Drafts of an import, before there is a document: layers, names, descriptions."""
