"""Turns the nodes of a snapshot into the statements of a program."""
