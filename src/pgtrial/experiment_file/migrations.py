"""Files of migration tools that are not the SQL of a change alone. Some have both halves in them, what is done and what
undoes it: executed as a whole, a change is measured that is not there. Others have lines for psql.
"""

import re

# goose, sql-migrate, dbmate, rambler and tern; Flyway, Liquibase and others keep what undoes in a file of its own.
_UNDOES = re.compile(
    r"\s*--\s*(?:\+goose\s+down|\+migrate\s+down|migrate:down|rambler\s+down)\b.*"
    r"|\s*----\s*create above / drop below\s*----\s*",
    re.IGNORECASE,
)
_OF_PSQL = re.compile(r"\s*(?P<command>\\[a-z!]+)", re.IGNORECASE)
PSQL_HINT = "Take it out: the server gets this SQL without psql. Data are loaded by psql, with load in [dataset]."
HINT = "Give what stands above that line, in a file of its own."


def begins_undoing(line: str) -> bool:
    """Whether a line tells a migration tool that what follows undoes what stood before."""
    return _UNDOES.fullmatch(line.rstrip("\r\n")) is not None


def explain_both_halves(text: str) -> str:
    """What is wrong with SQL that has both halves in it; "" where it has not."""
    return next((say_undoing(number) for number, line in enumerate(text.splitlines(), 1) if begins_undoing(line)), "")


def explain_psql(text: str) -> str:
    """What is wrong with SQL that has a line for psql in it; "" where it has not, or where that line may be a part of a
    text that begins before it.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if found := _OF_PSQL.match(line):
            return f"line {number} is no SQL but a command of psql's: {found['command']}"
        if not line.lstrip().startswith("--") and ("$" in line or "/*" in line or line.count("'") % 2):
            break
    return ""


def say_undoing(number: int) -> str:
    """What is wrong where line ``number`` begins what undoes."""
    return f"it is for a migration tool: what stands from line {number} on undoes the rest, and would be executed too"
