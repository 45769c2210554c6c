"""A page for the users of a trained model."""
