"""Checkpoints: their files, their schema, and how a training resumes from one."""
