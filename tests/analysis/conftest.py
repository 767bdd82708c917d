"""Simulated experiments, written and analysed once for all processes of the tests; what a test wants different it
replaces in memory.
"""
