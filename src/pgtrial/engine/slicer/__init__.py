"""Runs that share the time of a block: the slicer's process, and the engine's side of it."""
