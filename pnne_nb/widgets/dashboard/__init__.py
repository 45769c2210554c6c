"""The training dashboard: control bar and plots."""
