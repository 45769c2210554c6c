"""A training as one plain PyTorch script."""
