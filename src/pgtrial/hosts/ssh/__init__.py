"""Another machine, reached by the system's OpenSSH."""
