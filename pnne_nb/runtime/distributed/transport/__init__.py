"""Connects the processes of a group with the engine, and defines what they send."""
