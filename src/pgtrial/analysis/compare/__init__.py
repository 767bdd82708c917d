"""Several experiments side by side: what may be put together, and what may not."""
