"""Manages the interpreter itself: parent process, forks, subscribers, version, garbage collection."""
