"""Defines the messages between the editor in the browser and Python."""
