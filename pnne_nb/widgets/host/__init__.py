"""The notebook around a widget: the browser bundle, comms, cells, displays, and the frame pump."""
