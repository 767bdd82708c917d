"""A server that was there before pgtrial: reached as the user says, changed by SQL alone, and found again as it was."""
