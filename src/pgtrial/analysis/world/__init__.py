"""Settings and fingerprints: what differs between runs, and whether the experiment asked for it."""
