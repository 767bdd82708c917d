"""What can be varied, one file each."""
