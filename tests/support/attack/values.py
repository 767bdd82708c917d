"""Values that a stranger would write in place of others, and what he would do to texts, bytes and trees."""

import copy
import random
from collections.abc import Callable
from typing import Any

_DEEP = 3000  # levels; a hundred are more than anything of pgtrial has
SCALARS: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1,
    2**31,
    -(2**31) - 1,
    2**63 - 1,
    -(2**63),
    2**64,
    10**30,
    0.0,
    -0.0,
    1e-320,
    1.5,
    3e8,
    -1e9,
    1e18,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    " ",
    "\0",
    "on",
    "../../../etc/passwd",
    "/etc/passwd",
    "a/b",
    "x" * 70_000,
    "\x1b[2J\x1b]0;x\x07\u202e\u2028",
    "\ud800",
    "{}",
    "[]",
    "null",
    "1" * 5000,
    "NaN",
    "%s{0}{x!r}%(a)s",
    "<script>alert(1)</script>",
    "'; DROP TABLE run; --",
    "٣",
    "1e999",
    "2026-13-45T99:99:99Z",
    [],
    {},
    [[]],
    {"": {"": None}},
)
TEXTS = (*(value for value in SCALARS if isinstance(value, str)), "[" * 100_000, '{"a":' * _DEEP + "1" + "}" * _DEEP)
BINARY = (b"", b"\xff\x00", b"\xf0\x9f", b"\x00" * 70_000, b"\xed\xa0\x80")


def deep(rng: random.Random) -> Any:
    """A list or a table in itself, so many times."""
    value: Any = 1
    for _ in range(rng.choice((90, 150, 900))):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def any_value(rng: random.Random) -> Any:
    return deep(rng) if rng.random() < 0.05 else rng.choice(SCALARS)


def mutate_tree(rng: random.Random, tree: Any, *, value: Callable[[random.Random], Any] = any_value) -> Any:
    """The tree with one place changed: another value, gone, twice, another's, or one more."""
    places = [*_places(tree)]
    if not places:
        return value(rng)
    holder, key = rng.choice(places) if rng.random() < 0.5 else _descend(rng, tree)
    way = rng.randrange(6)
    if way <= 2:
        holder[key] = value(rng)
    elif way == 3:
        del holder[key]
    elif way == 4:
        other, its = rng.choice(places)
        holder[key] = copy.deepcopy(other[its])  # itself, it could be around what it is put into
    elif isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        name = rng.choice((f"{key}x", "", key.upper(), "name", "\x1b[2J", "x" * 5000, "__class__"))
        holder[name] = holder[key]
    return tree


def _descend(rng: random.Random, tree: Any) -> Any:
    """(container, key) of a place that is found step by step: of a large tree any part, however many others have."""
    while True:
        key = rng.choice([*tree] if isinstance(tree, dict) else range(len(tree)))
        if not isinstance(tree[key], dict | list) or not tree[key] or rng.random() < 0.1:
            return tree, key
        tree = tree[key]


def _places(tree: Any) -> Any:
    """(container, key) of everything in a tree of lists and tables."""
    for key, inner in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield tree, key
        yield from _places(inner)


def mutate_bytes(rng: random.Random, content: bytes) -> bytes:
    """The bytes with some of them changed, cut out, put in or repeated."""
    for _ in range(rng.choice((1, 1, 2, 10, 100))):
        at = rng.randrange(len(content) + 1)
        length = rng.choice((1, 1, 4, 100, 5000))
        way = rng.randrange(6)
        if way == 0:
            content = content[:at]
        elif way == 1:
            content = content[:at] + rng.randbytes(length) + content[at + length :]
        elif way == 2:
            content = content[:at] + content[at + length :]
        elif way == 3:
            content = content[:at] + rng.choice(BINARY) + content[at:]
        elif way == 4:
            content = content[:at] + content[at : at + length] * 3 + content[at + length :]
        else:
            content = content[:at] + bytes((rng.choice(b"\0\xff\x7f\x80"),)) * length + content[at + length :]
    return content


def mutate_text(rng: random.Random, text: str) -> str:
    """The text with lines changed, or characters put in."""
    lines = text.splitlines(keepends=True) or [""]
    at = rng.randrange(len(lines))
    way = rng.randrange(7)
    if way == 0:
        del lines[at]
    elif way == 1:
        lines.insert(rng.randrange(len(lines)), lines[at])
    elif way == 2:
        lines[at] = rng.choice(TEXTS) + "\n"
    elif way == 3:
        head, _, _ = lines[at].partition("=")
        lines[at] = f"{head}= {rng.choice(TEXTS)}\n"
    elif way == 4:
        place = rng.randrange(len(lines[at]) + 1)
        lines[at] = lines[at][:place] + rng.choice((*TEXTS, "\\", '"', "[", "]", ".", "#", "\r")) + lines[at][place:]
    elif way == 5:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        return mutate_bytes(rng, text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
    return "".join(lines)
