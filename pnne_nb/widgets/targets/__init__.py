"""The widget that compares the deployment forms of a model while they are built and timed."""
