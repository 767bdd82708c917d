"""The sampler: a separate process that reads metrics during the load, and the engine's side of it."""
