"""JSON and TOML that somebody else may have written: nested no deeper than code can follow."""

import json
import re
import tomllib
from typing import Any

_DEEPEST = 100  # our own have some ten
# A key of more parts than that; tomllib takes memory by the square of their number.
_LONG_KEY = re.compile(r"""(?:(?<![\w"'-])(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""")


class TooDeepError(ValueError):
    """A text is nested too deeply."""

    def __init__(self) -> None:
        super().__init__("it is nested too deeply")


def parse_json(text: str | bytes) -> Any:
    """What the text says. Raises ValueError."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise TooDeepError from None
    # A text has no more levels than opening brackets, which are quick to count.
    brackets = text.count(b"[") + text.count(b"{") if isinstance(text, bytes) else text.count("[") + text.count("{")
    if brackets > _DEEPEST:
        _check_depth(found)
    return found


def parse_toml(text: str) -> dict[str, Any]:
    """What the text says. Raises ValueError."""
    if _LONG_KEY.search(text):
        raise TooDeepError
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise TooDeepError from None
    _check_depth(found)
    return found


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_DEEPEST + 1):
        level = [inner for outer in level if isinstance(outer, dict | list) for inner in _inside(outer)]
        if not level:
            return
    raise TooDeepError


def _inside(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value
