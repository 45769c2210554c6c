"""Writes a training as one plain PyTorch script."""
