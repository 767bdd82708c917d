"""Findings to a few paragraphs in plain words, without any model: each number keeps the place it comes from."""
