"""Finds what is wrong with a training: findings, the evidence for them, and the rules that make them."""
