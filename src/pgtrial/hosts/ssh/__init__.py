"""A remote machine, reached with the system's OpenSSH."""
