"""Calibration: its measurements, and what they predict for an experiment."""
