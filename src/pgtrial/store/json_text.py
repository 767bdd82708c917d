"""JSON that somebody else may have written, with a bounded depth."""

import json
from typing import Any

_DEEPEST = 100  # our own has some ten


def parse_json(text: str | bytes) -> Any:
    """What the text says. ValueError where it is no JSON, or where arrays and objects are nested too deeply."""
    try:
        found = json.loads(text)
    except RecursionError as err:
        raise ValueError("it is nested too deeply") from err
    # A text has as many levels as opening brackets at most, which are quick to count.
    brackets = text.count(b"[") + text.count(b"{") if isinstance(text, bytes) else text.count("[") + text.count("{")
    if brackets > _DEEPEST:
        check_depth(found, _DEEPEST)
    return found


def check_depth(value: Any, most: int) -> None:
    """ValueError where a value of JSON or TOML is nested more deeply."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > most + 1:
            raise ValueError("it is nested too deeply")
        level = [
            each
            for outer in level
            if isinstance(outer, dict | list)
            for each in (outer.values() if isinstance(outer, dict) else outer)
        ]
