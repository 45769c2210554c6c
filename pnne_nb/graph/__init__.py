"""The document: nodes, edges and what is done to them. It knows neither torch nor Jupyter."""
