"""Disturbances of a measurement on a host."""
