"""What load: how to call the generator and how to read what it says. Does no input or output itself."""
