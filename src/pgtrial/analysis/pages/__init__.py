"""Huge pages: whether the runs had them, and what they gain."""
