"""Losses, metrics, and what a training aims at."""
