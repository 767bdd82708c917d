"""Attacks with damaged and forged input: thousands of mutants of what pgtrial reads, each by a seed of its own."""
