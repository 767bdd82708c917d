"""Experiments whose cause is known beforehand, and whether the analysis finds it: `python -m ground_truth`."""
