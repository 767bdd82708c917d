"""Access to a machine: run programs, read files, end what was started."""
