"""Shows a trained model as a page for people who use it."""
