"""What can be seen of an experiment while it runs: put together by the pgtrial at work, for its terminal and others."""
