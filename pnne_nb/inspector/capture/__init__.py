"""Hooks that see what a model computes, and detach."""
