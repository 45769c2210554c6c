"""Shows editor, plots and dashboard in a notebook. No other room knows Jupyter."""
