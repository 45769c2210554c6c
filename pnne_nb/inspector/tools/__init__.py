"""Answers one question at a time: summary, profile, benchmark, checks, dataflow, attention."""
