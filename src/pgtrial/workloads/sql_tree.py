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


def outermost(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """The node with what is around it and keeps it apart from other values, and what that is in."""
    while isinstance(node.parent, exp.Paren | exp.Cast | exp.Lower | exp.Upper) and node.arg_key == "this":
        node = node.parent
    return node, node.parent


def innermost(node: exp.Expr | None) -> exp.Expr | None:
    while isinstance(node, exp.Paren | exp.Cast | exp.Lower | exp.Upper):
        node = node.this
    return node


def name_of(node: exp.Expr | None) -> str:
    """As the server's catalogue has it; "" of what has no name."""
    if isinstance(node, exp.Column):
        node = node.this
    if not isinstance(node, exp.Identifier):
        return ""
    return str(node.name) if node.args.get("quoted") else str(node.name).lower()


def is_parameter(node: exp.Expr | None) -> bool:
    found = innermost(node)
    return isinstance(found, exp.Column) and found.name.startswith(MARK)


def has_parameter(node: exp.Expr | None) -> bool:
    return node is not None and any(each.name.startswith(MARK) for each in node.find_all(exp.Column))
