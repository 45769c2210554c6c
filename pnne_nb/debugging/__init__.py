"""Watches trainings of other loops than the engine's, and says what is wrong with them."""
