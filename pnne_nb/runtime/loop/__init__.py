"""Runs epochs, steps and validation; synchronous, without a thread of its own."""
