"""Timelines: throughput of a run next to machine and server metrics, second by second."""
