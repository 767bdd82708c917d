"""What limits trust in the numbers: checks of runs, blocks, slices, machine and world."""
