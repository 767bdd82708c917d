"""Files of migration tools that have both halves in them, what is done and what undoes it: executed as a whole, a
change is measured that is not there.
"""

import re

# goose, sql-migrate, dbmate, rambler and tern; Flyway, Liquibase and others keep what undoes in a file of its own.
_UNDOES = re.compile(
    r"\s*--\s*(?:\+goose\s+down|\+migrate\s+down|migrate:down|rambler\s+down)\b.*"
    r"|\s*----\s*create above / drop below\s*----\s*",
    re.IGNORECASE,
)
HINT = "Give what stands above that line, in a file of its own."


def begins_undoing(line: str) -> bool:
    """Whether a line tells a migration tool that what follows undoes what stood before."""
    return _UNDOES.fullmatch(line.rstrip("\r\n")) is not None


def explain_both_halves(text: str) -> str:
    """What is wrong with SQL that has both halves in it; "" where it has not."""
    return next((say_undoing(number) for number, line in enumerate(text.splitlines(), 1) if begins_undoing(line)), "")


def say_undoing(number: int) -> str:
    """What is wrong where line ``number`` begins what undoes."""
    return f"it is for a migration tool: what stands from line {number} on undoes the rest, and would be executed too"
