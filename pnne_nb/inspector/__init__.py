"""Inspects modules: name patterns select layers, hooks measure them, frames carry the results."""
