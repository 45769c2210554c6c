"""The training thread, its control, and the locks on the model and the random state."""
