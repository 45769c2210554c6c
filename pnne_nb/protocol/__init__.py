"""The messages between the widgets in the browser and Python."""
