"""Checkpoints, told by the shape of what the log says of them: it is the same in every language and version.

The reason is never translated (xlog.c: LogCheckpointStart). The end has its numbers in one order in all translations of
PostgreSQL 15 to 18: buffers, their share, from 18 on SLRU buffers, three numbers of WAL files, three times, a number of
files, two times, two sizes in kB.
"""

import re
from collections.abc import Mapping

_FLAGS = ("shutdown", "end-of-recovery", "immediate", "fast", "force", "wait", "wal", "time", "flush-all")
_START = re.compile(rf"[^\n]{{1,80}}?[:：]\s*(?P<flags>(?:{'|'.join(_FLAGS)})(?: (?:{'|'.join(_FLAGS)}))*)")
# Times have three digits behind the point, shares one.
_VALUE = re.compile(r"(?P<time>\d+[.,]\d{3}(?!\d))|(?P<share>\d+[.,]\d\s?%)|(?P<number>\d+)")
_END = re.compile(r"ns(?P<slru>n?)nnntttnttnn.*")
_ROUNDING = 0.01  # s; the parts are cut to milliseconds one by one


def find_reason(message: str) -> str | None:
    """By what a checkpoint that begins was asked for: "time", "wal", "immediate force wait"; None if it is no start."""
    match = _START.fullmatch(message)
    return None if match is None else match["flags"]


def is_timed(reason: str) -> bool:
    """Whether checkpoint_timeout was the reason; everything else was requested, by the amount of WAL or by somebody."""
    return "time" in reason.split()


def read_end(message: str) -> Mapping[str, float] | None:
    """Numbers of a finished checkpoint in base units, None if the message is not of one."""
    if "\n" in message:
        return None
    found = [(match.lastgroup or "", match[0]) for match in _VALUE.finditer(message)]
    shape = _END.fullmatch("".join(kind[0] for kind, _ in found))
    if shape is None:
        return None
    texts = iter(text for kind, text in found if kind != "share")
    numbers = {"buffers": float(next(texts))}
    if shape["slru"]:
        numbers["SLRU buffers"] = float(next(texts))
    for name in ("WAL files added", "WAL files removed", "WAL files recycled"):
        numbers[name] = float(next(texts))
    for name in ("write seconds", "sync seconds", "total seconds"):
        numbers[name] = float(next(texts).replace(",", "."))
    numbers["sync files"] = float(next(texts))
    longest, average = (float(next(texts).replace(",", ".")) for _ in range(2))
    numbers["distance bytes"] = float(next(texts)) * 1024
    parts = numbers["write seconds"] + numbers["sync seconds"]
    if parts > numbers["total seconds"] + _ROUNDING or average > longest:
        return None  # other numbers that happen to have the shape
    return numbers
