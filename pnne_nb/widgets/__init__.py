"""What is shown in a notebook: editor, plots, dashboard. The only place that knows Jupyter."""
