"""The text of an experiment file for a copy of its database: the same experiment, with another target."""

import json
import re
from collections.abc import Mapping

_HEAD = re.compile(r"\s*\[\[?\s*(?P<name>[^\]]+?)\s*\]")
_KEY = re.compile(r"\s*(?P<key>[A-Za-z_]+)\s*=")
_OF_SERVER = ("kind", "connection", "database", "host", "restart", "writes", "settings")


def for_database(text: str, name: str) -> str:
    """The target is database ``name`` of the same server, which may be written to."""
    lines = {"target": ("database", "writes")}
    return _rewrite(text, lines, {"target": [f"database = {json.dumps(name)}", "writes = true"]})


def for_dump(text: str, dump: str, *, version: int) -> str:
    """The target is a throw-away cluster of a major ``version``, into which ``dump`` is loaded."""
    return _rewrite(
        text,
        {"target": (*_OF_SERVER, "postgres"), "dataset": ("kind", "load")},
        {
            "target": ['kind = "throwaway"', f'postgres = "{version}"'],
            "dataset": ['kind = "sql"', f"load = {json.dumps(dump)}"],
        },
    )


def _rewrite(text: str, left_out: Mapping[str, tuple[str, ...]], added: Mapping[str, list[str]]) -> str:
    """ValueError where a table is not written with a head of its own, one key a line."""
    missing = set(added)
    result: list[str] = []
    table = ""
    for line in text.splitlines():
        head, key = _HEAD.match(line), _KEY.match(line)
        if head:
            table = head["name"]
            result.append(line)
            result += added.get(table, [])
            missing.discard(table)
        elif not (key and key["key"] in left_out.get(table, ())):
            result.append(line)
    if missing:
        raise ValueError(f"[{sorted(missing)[0]}] is not a table with a head of its own")
    return "\n".join(result) + "\n"
