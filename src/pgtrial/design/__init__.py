"""Pure: the experiment file to arms, load levels, and a schedule."""
