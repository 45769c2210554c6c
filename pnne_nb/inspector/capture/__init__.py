"""Hooks that record what a model computes and are removed afterwards."""
