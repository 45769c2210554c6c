"""Looks inside modules: name patterns choose layers, hooks measure them, frames carry the results."""
