"""The module explorer."""
