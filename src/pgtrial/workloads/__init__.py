"""Workloads: how to call a load generator and parse its output. Does no input or output itself."""
