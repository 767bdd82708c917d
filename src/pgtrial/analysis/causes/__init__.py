"""Why: from samples to causes."""
