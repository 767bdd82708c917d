"""The file of an experiment that compares the control of another one with itself.

A text and not a model, so that the result folder holds the file as used.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from pgtrial.knobs import KNOBS, is_list
from pgtrial.knobs.postgresql import POSTGRESQL

CONTROL, AGAIN = "control", "again"  # names of the arms
_KEPT = ("restore", "cache", "seed", "repeats")  # of [design]
_HEAD = "# Written by pgtrial calibrate: the control of an experiment against itself.\n"


def control_twice(
    text: str,
    *,
    name: str,
    method: str = "blocks",
    slice: float | None = None,
    blocks: int | None = None,
    duration: float | None = None,
    warmup: float | None = None,
    portion: int = 0,
) -> str:
    """TOML with two arms, both the control of the experiment in ``text``, which has no errors; the rest as it is there.

    ``duration``, ``warmup`` and ``slice`` in seconds; what is None stays, a slice goes. The seed of the order is that
    of ``text`` plus ``portion``.
    """
    data = tomllib.loads(text)
    hypothesis = {key: value for key, value in data.get("hypothesis", {}).items() if key not in ("claim", "arm")}
    # A margin of zero is no claim of equivalence.
    expect = "different" if hypothesis.get("margin") in (0, "0%") else "equivalent"
    design = {key: value for key, value in data.get("design", {}).items() if key in _KEPT}
    design |= {"seed": (design.get("seed", 1) + portion) % 2**63, "method": method}
    design |= {key: value for key, value in (("slice", slice), ("blocks", blocks)) if value is not None}
    given = {"duration": duration, "warmup": warmup}
    workload = data["workload"] | {key: value for key, value in given.items() if value is not None}
    return _HEAD + render_toml(
        {
            "format": data["format"],
            "experiment": {"name": name},
            "hypothesis": {**hypothesis, "claim": "The control does not differ from itself", "expect": expect},
            **{key: data[key] for key in ("target", "dataset", "disks") if key in data},
            "workload": workload,
            "arms": {CONTROL: _control(data), AGAIN: {"inherit": CONTROL}},
            "design": design,
        }
    )


def render_toml(data: Mapping[str, Any]) -> str:
    """TOML of what ``tomllib`` reads, dates and times left out: tables by their headings, those in lists inline."""
    return "\n".join(_render_table((), data)).strip() + "\n"


def _control(data: Mapping[str, Any]) -> dict[str, Any]:
    """What the first arm has, with what it inherits; of factors the first levels."""
    tables: dict[str, Any] = {}
    for name, factor in data.get("factors", {}).items():
        knob, key, level = factor.get("knob", POSTGRESQL), factor.get("setting", name), factor["levels"][0]
        if is_list(knob, key) and isinstance(level, str):
            level = level.split(", ") if level else []
        tables[knob] = {**tables.get(knob, {}), key: level}
    heir = next(iter(data.get("arms", {})), None)
    while heir is not None:
        arm = data["arms"][heir]
        for knob in KNOBS:
            if knob in arm:
                tables[knob] = arm[knob] | tables.get(knob, {})
        heir = arm.get("inherit")
    return tables


def _render_table(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    own = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    inner = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    if path and (own or not inner):
        yield f"\n[{'.'.join(map(_key, path))}]"
    yield from (f"{_key(key)} = {_value(value)}" for key, value in own.items())
    for key, value in inner.items():
        yield from _render_table((*path, key), value)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    # JSON's strings, numbers, true and false are TOML's as well, but for a character that TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)
