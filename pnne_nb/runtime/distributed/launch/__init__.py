"""Plans a group of processes, starts it through torchrun, and wraps its models."""
