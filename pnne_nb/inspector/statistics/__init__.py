"""Pure measurements on tensors."""
