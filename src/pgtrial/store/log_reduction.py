"""Reduce a log of pgbench to sums, on the machine on which it lies: ``python -c THIS WANTED LOG OUT``.

This file stands alone: its text is sent to the machine that the load comes from (standard library only, Python 3.8),
and nothing is installed there. A line of the result is a second, a script and a latency bucket, and what
transactions.py makes of the log's lines when it has them here; nothing further down sees a difference. Times are whole
microseconds, of our clock and since the beginning of the measured time.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

COLUMNS = (
    "second",  # in which it ended; empty outside of the measured time
    "place",  # to which the part of it belongs that was measured; empty without one
    "script",
    "bucket",  # of its latency, or what became of it
    "lines",
    "latency",
    "late",
    "retried",
    "retries",
    "lag",  # empty without a rate
    "inside",  # the parts that were measured, in PARTS
    "first",
    "last",
)
FAILED, SKIPPED = -1, -2  # in place of a bucket
PARTS = 1 << 20  # of a transaction, so that sums are exact in any order
BAD_LINE = 3  # exit status
CUT_OFF = "cut off"  # of a line without an end
_MICRO = 1_000_000
_WORDS = {b"failed": FAILED, b"serialization": FAILED, b"deadlock": FAILED, b"skipped": SKIPPED}
_FIELDS = 6
_SHOWN = 200  # characters of a line


@dataclass(frozen=True)
class Wanted:
    """What is asked for: ``start`` and ``end`` of the measured time, how far the log's clock is ``ahead``, the
    ``latency_limit``, the number of ``scripts``, whether lines have a lag (``has_rate``) and how often they were
    retried (``has_retries``), and the width ``gamma`` of buckets.
    """

    start: int
    end: int
    ahead: int
    latency_limit: int | None
    scripts: int
    has_rate: bool
    has_retries: bool
    gamma: float

    @property
    def fields(self) -> int:
        return _FIELDS + self.has_rate + self.has_retries


class BadLineError(ValueError):
    """A line that is none of a log: its number, itself, and "" or CUT_OFF."""


def reduce_log(log: IO[bytes], wanted: Wanted) -> dict[tuple[Any, ...], list[int]]:
    """The sums from "lines" on, by the columns before. Raises BadLineError."""
    begin, end = wanted.start, wanted.end
    limit = math.inf if wanted.latency_limit is None else wanted.latency_limit
    scale, last_second = math.log(wanted.gamma), (end - begin - 1) // _MICRO
    width = 0
    found: dict[tuple[Any, ...], list[int]] = {}
    buckets: dict[int, int] = {0: 0, 1: 0}
    for number, line in enumerate(log, 1):
        fields = line.split(b" ")
        width = width or max(len(fields), wanted.fields)  # a newer pgbench may append some
        try:
            script, ended, latency, lag, retries = _parse(fields, wanted, width)
        except ValueError:
            raise BadLineError(number, line, CUT_OFF if line[-1:] != b"\n" else "") from None
        if line[-1:] != b"\n":
            raise BadLineError(number, line, CUT_OFF)
        second = (ended - begin) // _MICRO if begin <= ended < end else None
        place, inside = second, 0
        if latency < 0:
            bucket, latency = latency, 0
        else:
            known = buckets.get(latency)
            if known is None:
                known = buckets[latency] = math.ceil(math.log(latency) / scale)
            bucket = known
            began = ended - latency + lag
            if second is not None and (began >= begin or began >= ended):
                inside = PARTS
            elif began < ended:
                part = max(0, min(ended, end) - max(began, begin)) / (ended - began)
                inside = math.floor(part * PARTS + 0.5)
                if place is None and part > 0:
                    place = last_second
        key = (second, place, script, bucket)
        sums = found.get(key)
        if sums is None:
            sums = found[key] = [0, 0, 0, 0, 0, 0, 0, ended, ended]
        sums[0] += 1
        sums[1] += latency
        sums[2] += latency > limit
        sums[3] += retries > 0
        sums[4] += retries
        sums[5] += lag
        sums[6] += inside
        if ended < sums[7]:
            sums[7] = ended
        elif ended > sums[8]:
            sums[8] = ended
    return found


def _parse(fields: list[bytes], wanted: Wanted, width: int) -> tuple[int, int, int, int, int]:
    """Script, end by our clock, latency or what became of it, lag and retries. Raises ValueError."""
    if len(fields) != width:
        raise ValueError
    client, count, word, text, epoch, micro = fields[:_FIELDS]
    int(client), int(count)
    script, ended = int(text), int(epoch) * _MICRO + int(micro) - wanted.ahead
    latency = _WORDS.get(word)
    if latency is None:
        latency = int(word)
        if latency < 0:
            raise ValueError
    if not 0 <= script < wanted.scripts:
        raise ValueError
    lag = int(fields[_FIELDS]) if wanted.has_rate else 0
    retries = int(fields[_FIELDS + wanted.has_rate]) if wanted.has_retries else 0
    return script, ended, latency, lag, retries


def write_sums(found: dict[tuple[Any, ...], list[int]], out: IO[str], wanted: Wanted) -> None:
    """Lines of CSV without a header."""
    for key, (*sums, lag, inside, first, last) in found.items():
        row = (*key, *sums, lag if wanted.has_rate else None, inside, first - wanted.start, last - wanted.start)
        out.write(",".join("" if each is None else str(each) for each in row) + "\n")


def main(asked: str, log_path: str, out_path: str) -> None:
    """Reduce a file. A bad line goes to standard error, as JSON, with the exit status BAD_LINE."""
    wanted = Wanted(**json.loads(asked))
    try:
        with Path(log_path).open("rb") as log:
            found = reduce_log(log, wanted)
    except BadLineError as err:
        _refuse(*err.args)
    with Path(out_path).open("x", encoding="ascii") as out:
        write_sums(found, out, wanted)


def _refuse(number: int, line: bytes, why: str) -> NoReturn:
    text = line[:_SHOWN].decode("utf-8", "replace").rstrip("\n")
    print(json.dumps({"number": number, "line": text, "why": why}), file=sys.stderr)
    sys.exit(BAD_LINE)


if __name__ == "__main__":
    main(*sys.argv[1:4])
