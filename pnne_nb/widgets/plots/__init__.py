"""Plots of losses, layers and resources."""
