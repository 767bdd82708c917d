"""Reach a machine: run programs there, read its files, end what was started."""
