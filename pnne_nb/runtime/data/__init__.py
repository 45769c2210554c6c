"""Data of any accepted kind as a source of batches."""
