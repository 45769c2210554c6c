"""What a training reports: history, frames, resources, TensorBoard."""
