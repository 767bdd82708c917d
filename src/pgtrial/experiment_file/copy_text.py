"""The text of an experiment file for a copy of its database: the same experiment, with another target."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pgtrial.errors import SpecError
from pgtrial.experiment_file.places import expand_home
from pgtrial.safe_text import parse_toml

_HEAD = re.compile(r"\s*\[\[?\s*(?P<name>[^\]]+?)\s*\]")
_KEY = re.compile(r"\s*(?P<key>[A-Za-z_]+)\s*=")
_OF_SERVER = ("kind", "connection", "database", "copy_of", "host", "restart", "writes", "settings")


def for_database(text: str, name: str, *, original: str) -> str:
    """The target is database ``name`` of the same server, a copy of ``original``, which may be written to."""
    target = {"database": name, "copy_of": original, "writes": True}
    return _rewrite(text, {"target": tuple(target)}, {"target": target})


def for_folder(text: str, named: Sequence[str], folder: Path, to: Path) -> str:
    """The same file in directory ``to``: the files ``named`` in it by paths from ``folder`` are named from there.

    Raises SpecError where it is not certain that a text in the file is one of these names.
    """
    here, there = os.path.realpath(folder), os.path.realpath(to)
    moved = [name for name in named if here != there and not expand_home(Path(name)).is_absolute()]
    for name in dict.fromkeys(moved):
        literals = [literal for literal in (_toml(name), f"'{name}'") if literal in text]
        if sum(map(text.count, literals)) != moved.count(name):
            raise SpecError(
                f'the file for the copy cannot name "{name}" from another directory',
                hint="Write it beside this one, without --output or with one in the same directory.",
            )
        for literal in literals:
            text = text.replace(literal, _toml(os.path.relpath(Path(here, name), there)))
    return text


def for_dump(text: str, dump: str, *, version: int) -> str:
    """The target is a throw-away cluster of a major ``version``, into which ``dump`` is loaded."""
    return _rewrite(
        text,
        {"target": (*_OF_SERVER, "postgres"), "dataset": ("kind", "load")},
        {
            "target": {"kind": "throwaway", "postgres": str(version)},
            "dataset": {"kind": "sql", "load": dump},
        },
    )


def _rewrite(text: str, left_out: Mapping[str, Sequence[str]], added: Mapping[str, Mapping[str, object]]) -> str:
    """SpecError where a table is not written with a head of its own, one key a line, or something else looks like it.

    A file that names the original still, and is run as the copy, would change the original.
    """
    result: list[str] = []
    heads: set[str] = set()
    table = ""
    for line in text.split("\n"):
        head, key = _HEAD.match(line), _KEY.match(line)
        if head:
            table = head["name"]
            heads.add(table)
            result.append(line)
            result += [f"{name} = {_toml(value)}" for name, value in added.get(table, {}).items()]
        elif not (key and key["key"] in left_out.get(table, ())):
            result.append(line)
    for name in (name for name in added if name not in heads):
        result += [f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in added[name].items()), ""]
    new_text = "\n".join(result)
    wanted = parse_toml(text)
    for name, values in added.items():
        kept = {key: value for key, value in wanted.get(name, {}).items() if key not in left_out[name]}
        wanted[name] = {**kept, **values}
    try:
        is_as_wanted = parse_toml(new_text) == wanted
    except ValueError:
        is_as_wanted = False
    if not is_as_wanted:
        tables = " and ".join(f"[{name}]" for name in added)
        raise SpecError(
            "the file for the copy cannot be made out of this one",
            hint=f"Write {tables} with a head and one key a line, and nothing in a text that looks like it.",
        )
    return new_text


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
