"""What goes wrong in a training: recognised, located, explained, and survived where possible."""
