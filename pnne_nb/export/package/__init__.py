"""A graph and its model as data that proves itself: one zip file or a folder."""
