"""What is read while a load runs, one file each: a source and a pure parser."""
