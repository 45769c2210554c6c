"""The picture of a graph without a browser: an SVG that looks as the editor does."""
