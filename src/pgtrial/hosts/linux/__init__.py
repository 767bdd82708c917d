"""The parts of a Linux machine that pgtrial reads and changes."""
