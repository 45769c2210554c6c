"""Defines losses, metrics, and what a training aims at."""
