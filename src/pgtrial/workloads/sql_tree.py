"""A statement as a tree, by a parser that knows nothing of the server."""

import re

import sqlglot
from sqlglot import exp

MARK = "pgtrial_parameter_"  # begins the name of a column that stands for a parameter, before its number
_NUMBER = re.compile(r"\$(\d+)")


def parse_statement(text: str) -> exp.Expr | None:
    """The tree, in which parameters are columns with a name of ours: the parser would take "$1,$" for a quote.

    None for what the parser does not understand.
    """
    if MARK in text.lower():
        return None
    try:
        return sqlglot.parse_one(_NUMBER.sub(rf"{MARK}\1", text), read="postgres")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return None
