"""Defines what a training measures, who measures it, and the queue that carries it to whoever shows it."""
