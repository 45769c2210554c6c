"""Packages: a graph and its model as data with checksums and recorded outputs, in a zip file or a folder."""
