"""The world around a run, read before and after its load."""
