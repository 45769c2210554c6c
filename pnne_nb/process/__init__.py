"""The interpreter's own affairs: parent process, forks, subscribers, version, garbage collection."""
