"""Monitoring and diagnosis of training loops other than the engine's."""
