"""Watches training loops other than the engine's, and says what is wrong with them."""
