"""Settings and fingerprints: differences between runs, and whether the experiment declared them."""
