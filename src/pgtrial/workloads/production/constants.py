"""Constants of a text that pg_stat_statements did not replace: which are structure, and which could be somebody's.

It replaces none in a statement that was prepared before its counts were reset, or were lost. Of what the grammar allows
in a place only what can be no value of a row is structure there: a position of a column in ORDER BY and GROUP BY, how
many rows are asked for at most, the size of a type.

Source: scan.l and gram.y of PostgreSQL 14 to 18.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pgtrial.workloads.production.tokens import Token, token_at

_POSITION = re.compile(r"[0-9]{1,2}")
_ROWS = re.compile(r"[0-9]{1,3}")
_SIZE = re.compile(r"[0-9]{1,8}")
_QUERIES = frozenset(("SELECT", "TABLE", "WITH"))  # words that are no column's: "values" may be one
_LISTS = frozenset(("ORDER", "GROUP"))
_DIRECTIONS = frozenset(("ASC", "DESC", "NULLS"))
# Words behind which a list of positions is over: all that are reserved there, and more.
_AFTER_LIST = frozenset(
    "CONFLICT EXCEPT FETCH FOR FROM HAVING INTERSECT INTO LIMIT OFFSET ON ORDER RETURNING SELECT SET TABLE "  # noqa: SIM905
    "UNION USING VALUES WHEN WHERE WINDOW WITH".split()
)
_AFTER_ROWS = frozenset(("FOR", "OFFSET", "ROW", "ROWS", "UNION", "EXCEPT", "INTERSECT"))
# Types that CAST (… AS type) may give a size; behind "AS" other names are no types, as one behind "::" is always.
_SIZED = frozenset(
    "BIT BPCHAR CHAR CHARACTER DEC DECIMAL FLOAT INTERVAL NUMERIC TIME TIMESTAMP TIMESTAMPTZ TIMETZ VARBIT "  # noqa: SIM905
    "VARCHAR VARYING".split()
)
# Reserved, so that no function is called so, but one of a schema. What is behind them are digits of a second.
_NOW = frozenset(("CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP"))
_DIGIT = re.compile(r"[0-6]")
_VARYING = frozenset(("BIT", "CHAR", "CHARACTER"))


@dataclass(slots=True)
class _Level:
    """Between two parentheses or brackets. ``is_list``: in the list of ORDER BY or GROUP BY of a query."""

    is_query: bool | None = None
    is_size: bool = False
    is_list: bool = False
    begins_item: bool = False


def holds_constant(tokens: Sequence[Token]) -> bool:
    """Whether a text has a constant that could be a value: any string, and any number that is no structure."""
    levels = [_Level(is_query=True)]
    for index, token in enumerate(tokens):
        level = levels[-1]
        if token.kind in ("string", "dollar"):
            return True
        if token.kind == "number":
            if not _is_structure(tokens, index, level):
                return True
            level.begins_item = False
        elif token.text in ("(", "["):
            if level.is_query is None:
                level.is_query = False
            level.begins_item = False
            levels.append(_below(tokens, index))
        elif token.text in (")", "]"):
            levels = levels[:-1] or [_Level(is_query=False)]
        elif token.text == ",":
            level.begins_item = level.is_list
        else:
            _enter(level, tokens, index)
    return False


def _below(tokens: Sequence[Token], index: int) -> _Level:
    """What begins with the parenthesis or bracket at ``index``."""
    if tokens[index].text == "[":
        return _Level(is_query=False)
    if [token_at(tokens, index - step).word for step in (3, 2, 1)] == ["SELECT", "DISTINCT", "ON"]:
        return _Level(is_query=False, is_list=True, begins_item=True)
    return _Level(is_size=_is_type(tokens, index))


def _enter(level: _Level, tokens: Sequence[Token], index: int) -> None:
    """Any other token: a list may begin or end with it."""
    word = tokens[index].word
    if level.is_query is None:
        level.is_query = word in _QUERIES
    # Behind a point the words are the name of a column, and of what it is called: x.order by.
    if word == "BY" and token_at(tokens, index - 1).word in _LISTS and token_at(tokens, index - 2).text != ".":
        level.is_list = level.begins_item = bool(level.is_query)
        return
    level.begins_item = False
    if word in _AFTER_LIST:
        level.is_list = False


def _is_structure(tokens: Sequence[Token], index: int, level: _Level) -> bool:
    text = tokens[index].text
    before, after = (token_at(tokens, index + step) for step in (-1, 1))
    is_last = after.text in ("", ")")
    if level.begins_item and _POSITION.fullmatch(text):
        return is_last or after.text == "," or after.word in _DIRECTIONS | _AFTER_LIST
    is_most = before.word == "LIMIT" or (
        before.word in ("FIRST", "NEXT") and token_at(tokens, index - 2).word == "FETCH"
    )
    if is_most and level.is_query and _ROWS.fullmatch(text):
        return is_last or after.word in _AFTER_ROWS
    is_of_now = token_at(tokens, index - 2).word in _NOW and token_at(tokens, index - 3).text != "."
    if is_of_now and before.text == "(" and after.text == ")" and _DIGIT.fullmatch(text):
        return True
    is_alone = before.text in ("(", ",") and after.text in (")", ",")
    # A modifier may be a word, too: geometry(Point, 4326).
    return level.is_size and is_alone and _SIZE.fullmatch(text) is not None


def _is_type(tokens: Sequence[Token], index: int) -> bool:
    """Whether the parenthesis at ``index`` stands behind the name of a type, in a cast."""
    at = index - 1
    name = token_at(tokens, at)
    if name.kind not in ("word", "name"):
        return False
    at -= 1
    if name.word == "VARYING" and token_at(tokens, at).word in _VARYING:
        at -= 1
    while token_at(tokens, at).text == "." and token_at(tokens, at - 1).kind in ("word", "name"):
        at -= 2
    before = token_at(tokens, at)
    return before.text == "::" or (before.word == "AS" and name.word in _SIZED)
