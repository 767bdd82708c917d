"""What definitions of indexes say of what statements ask for: keys of documents, and the state that a queue takes."""

import re

from pgtrial.postgres.production import Table

_NAME = r'("(?:[^"]|"")+"|[a-z_][\w$]*)'
_TEXT = r"'((?:[^']|'')*)'"
_KEY = re.compile(rf"(?<![\w$\".]){_NAME} (->>|->|\#>>|\#>) {_TEXT}::text")
_STATE = re.compile(rf"(?<![\w$\".]){_NAME}\)*(?:::[\w .\"]+)? = (?:{_TEXT}::|(\d+)\))")


def keys_in(table: Table, column: str, operator: str) -> frozenset[str]:
    """Of documents, the keys that indexes have with an operator."""
    return frozenset(
        key.replace("''", "'")
        for text in table.expressions
        for name, own, key in _KEY.findall(text)
        if _plain(name) == column and own == operator and key.isprintable()
    )


def state_in(table: Table, column: str) -> str | None:
    """The only value of a column of which rows are in a partial index; None if there is none, or several."""
    found = {
        text.replace("''", "'") or number
        for predicate in table.predicates
        if "NOT (" not in predicate
        for name, text, number in _STATE.findall(predicate)
        if _plain(name) == column and text.isprintable()
    }
    return found.pop() if len(found) == 1 else None


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
