"""Connects widgets with the notebook around them: the browser bundle, comms, cells, displays, and the frame pump."""
