"""Documents as JSON, in files and as text."""
