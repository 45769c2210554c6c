"""Reports a training: history, frames, resources, TensorBoard."""
