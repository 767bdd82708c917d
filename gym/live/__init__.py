"""Real experiments with a known answer: equal arms, or 3 % more work in one, beside a machine that is never quiet."""
