"""Checks that limit trust in the numbers: runs, blocks, slices, machine and environment."""
