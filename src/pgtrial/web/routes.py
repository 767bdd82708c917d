"""Addresses: what is asked for, out of a request's target. An address names a result folder by its id only."""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import parse_qs

_STATIC = Path(__file__).parent / "static"
# Read once: what is not among these is not served, whatever its name.
STATIC = {
    "app.js": "text/javascript; charset=utf-8",
    "compare.js": "text/javascript; charset=utf-8",
    "dom.js": "text/javascript; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
}
_ID = r"(?P<id>[0-9a-f]{16})"
_MOST_FIELDS = 10  # of a query


class Kind(StrEnum):
    PAGE = "page"
    STATIC = "static"
    LIST = "list"
    ONE = "one"
    COMPARISON = "comparison"
    LIST_EVENTS = "list events"
    ONE_EVENTS = "one events"
    REPORT = "report"


_PATHS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (Kind.PAGE, re.compile(rf"/|/compare|/experiments/{_ID}")),
    (Kind.STATIC, re.compile(r"/static/(?P<file>[a-z]+\.[a-z]+)")),
    (Kind.LIST, re.compile(r"/api/experiments")),
    (Kind.ONE, re.compile(rf"/api/experiments/{_ID}")),
    (Kind.COMPARISON, re.compile(r"/api/compare")),
    (Kind.LIST_EVENTS, re.compile(r"/events")),
    (Kind.ONE_EVENTS, re.compile(rf"/events/{_ID}")),
    (Kind.REPORT, re.compile(rf"/reports/{_ID}")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """``ids`` are those of the result folders that are asked for, ``file`` is a name in STATIC."""

    kind: Kind
    path: str
    ids: tuple[str, ...] = ()
    file: str = ""
    query: str = field(default="", compare=False)


def find_route(target: str) -> Route | None:
    """What a request's target asks for; None where nothing is there."""
    path, _, query = target.partition("?")
    for kind, pattern in _PATHS:
        match = pattern.fullmatch(path)
        if match is None:
            continue
        groups = match.groupdict()
        if kind is Kind.STATIC and groups["file"] not in STATIC:
            return None
        ids = _compared(query) if kind is Kind.COMPARISON else tuple(filter(None, [groups.get("id")]))
        return Route(kind=kind, path=path, ids=ids, file=groups.get("file") or "", query=query)
    return None


def read_static(name: str) -> bytes:
    """The page itself, or a name of STATIC."""
    return (_STATIC / name).read_bytes()


def _compared(query: str) -> tuple[str, ...]:
    """The ids of a and b; () where one of them is missing or is none."""
    try:
        given = parse_qs(query, max_num_fields=_MOST_FIELDS)
    except ValueError:
        return ()
    ids = [given.get(name, [""])[0] for name in ("a", "b")]
    return tuple(ids) if all(re.fullmatch(r"[0-9a-f]{16}", one) for one in ids) else ()
