"""Detection, location and explanation of faults in a training."""
