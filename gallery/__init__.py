"""The published experiments, run in their quick size, and the pages of docs/gallery: `python -m gallery`."""
