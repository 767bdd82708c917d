"""Findings to HTML and text; computes nothing."""
