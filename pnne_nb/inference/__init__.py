"""Predicts with a live model, a saved package or an exported file."""
