"""Arm against control: the effects, the verdict on the claim, and the rule for stopping."""
