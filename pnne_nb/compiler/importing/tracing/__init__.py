"""Records one ``forward`` of a module as the calls that it makes."""
