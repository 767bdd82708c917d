"""The strings in JSON and TOML data, each with its key; and TOML as text."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """(key, text) of every string, in order; elements of a list have the key of the list."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from strings(item, str(name))
    elif isinstance(value, list):
        for item in value:
            yield from strings(item, key)


def lists(value: Any) -> Iterator[list[str]]:
    """Every list of strings, such as a command with its arguments."""
    if isinstance(value, dict):
        for item in value.values():
            yield from lists(item)
    elif isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            yield value
        for item in value:
            yield from lists(item)


def with_strings(value: Any, change: Callable[[str, str], str], key: str = "") -> Any:
    """The same with every string replaced by ``change(text, key)``; keys stay."""
    if isinstance(value, str):
        return change(value, key)
    if isinstance(value, dict):
        return {name: with_strings(item, change, str(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [with_strings(item, change, key) for item in value]
    return value


def parse_json(text: str) -> Any:
    """An object or a list; None where the text is neither."""
    if text[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def format_toml(tables: Mapping[str, Any]) -> str:
    """TOML of what tomllib reads: tables with their names, in their order, everything below a list on one line."""
    return "\n".join(_lines((), tables)).lstrip("\n") + "\n"


def _lines(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    if path:
        yield f"\n[{'.'.join(map(_key, path))}]"
    for name, value in table.items():
        if not isinstance(value, dict):
            yield f"{_key(name)} = {_value(value)}"
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _lines((*path, name), value)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _string(name)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_value(item)}" for name, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return str(value)  # numbers, dates and times


def _string(text: str) -> str:
    # JSON's escapes are TOML's too, but for pairs of surrogates; and TOML wants one character more escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
