"""Findings in the formats of other programs. Each is a pure function of the findings; nothing is computed here."""
