"""The live view of a running experiment, for its own terminal and for other viewers."""
