"""Tools for a single question: summary, profile, benchmark, checks, dataflow, attention."""
