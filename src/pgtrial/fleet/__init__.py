"""Blocks of one experiment on many hosts: who gets which block, and what happens when somebody is lost."""
