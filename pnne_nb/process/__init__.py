"""Tools for the interpreter and its process: parent process, forks, subscribers, version, garbage collection."""
