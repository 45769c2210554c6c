"""Tools for the interpreter and its process: parent process, forks, subscribers, garbage collection; and the version."""

__version__ = "0.1.0"
