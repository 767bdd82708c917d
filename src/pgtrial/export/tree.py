"""The strings in JSON and TOML data, each with its key."""

from collections.abc import Callable, Iterator
from typing import Any

from pgtrial.safe_text import parse_json


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


def parse_tree(text: str) -> Any:
    """An object or a list; None where the text is neither."""
    if text[:1] not in ("{", "["):
        return None
    try:
        return parse_json(text)
    except ValueError:
        return None
