"""The training thread, how it is controlled, and who may use the model and the random state when."""
