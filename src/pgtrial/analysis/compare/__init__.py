"""Several experiments, or several plain pgbench logs, side by side: what may be put together, and what may not."""
