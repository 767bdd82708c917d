"""Huge pages: whether the runs had them, and their gain."""
