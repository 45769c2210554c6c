"""Jupyter widgets: editor, plots and dashboard. No other package imports Jupyter."""
