"""What a trained model becomes: a page for its users, a smaller form, a file."""
