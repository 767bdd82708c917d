"""Simulated experiments that repeat each other, share a control, or have nothing in common; and logs of plain loads."""
