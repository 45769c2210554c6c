"""The picture of a graph without a browser: an SVG with the look of the editor."""
