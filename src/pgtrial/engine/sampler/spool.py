"""The sampler's file: a header line, then one JSON line per reading as it was read, then a closing line.

``[t, source, payload]`` with t in seconds since the epoch, by the clock of the machine that took the time. The payload
is a file's text, or the columns and rows of a query. Nothing is parsed while the load is on. A file without its closing
line comes from a sampler that was killed.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pgtrial.errors import StoreError

FILE = "sampler.jsonl"
HEADER = "header"
TROUBLE = "trouble"  # payload: what became unreadable and why, in words
REMARK = "remark"  # payload: a sentence on an optional source that cannot be read
UNANSWERED = "unanswered"  # payload: ""; what the server was asked then had no answer before the next tick
END = "end"  # payload: {"ticks": …, "late": …}
_CHUNK = 1 << 17  # characters
_HEAD = re.compile(rb'\[(?P<t>[0-9.e+]+),"(?P<source>[^"]+)",')


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What the sampler set out to read at each tick. ``absent`` says why a source is not there on the server's machine.

    The times of the ``foreign`` sources are by the clock of another machine, which was ``clock_offset`` seconds ahead
    of ours when the sampler started.
    """

    version_num: int
    interval: float
    session_interval: float
    sources: tuple[str, ...]
    devices: tuple[str, ...]
    absent: Mapping[str, str]
    foreign: tuple[str, ...] = ()
    clock_offset: float = 0.0


class SpoolWriter:
    """Writes in chunks: a write per reading would be one more system call each."""

    def __init__(self, directory: Path) -> None:
        self._fd = os.open(directory / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._encode = json.JSONEncoder(separators=(",", ":")).encode
        self._lines: list[str] = []
        self._size = 0

    def add(self, t: float, source: str, payload: object) -> None:
        line = self._encode((t, source, payload))
        self._lines.append(line)
        self._size += len(line)
        if self._size >= _CHUNK:
            self.flush()

    def add_header(self, t: float, header: Header) -> None:
        self.add(t, HEADER, asdict(header))

    def flush(self) -> None:
        if self._lines:
            left = memoryview(("\n".join(self._lines) + "\n").encode())
            self._lines.clear()
            self._size = 0
            while left:
                left = left[os.write(self._fd, left) :]

    def close(self) -> None:
        self.flush()
        os.close(self._fd)


def read_header(directory: Path) -> Header:
    """Header of a spool. Raises StoreError when there is none."""
    for _, _, payload in read_records(directory, HEADER):
        return Header(
            version_num=payload["version_num"],
            interval=payload["interval"],
            session_interval=payload["session_interval"],
            sources=tuple(payload["sources"]),
            devices=tuple(payload["devices"]),
            absent=payload["absent"],
            foreign=tuple(payload["foreign"]),
            clock_offset=payload["clock_offset"],
        )
    raise StoreError(f'the sampler wrote nothing to "{directory}"')


def read_records(directory: Path, *sources: str) -> Iterator[tuple[float, str, Any]]:
    """Records of some sources, or of all; a last line that is not whole is left out."""
    for line in _lines(directory):
        if not sources or _head(line)[1] in sources:
            t, source, payload = json.loads(line)
            yield t, source, payload


def read_times(directory: Path) -> Iterator[tuple[float, str]]:
    """Time and source of all records, without decoding what was read."""
    return map(_head, _lines(directory))


def _head(line: bytes) -> tuple[float, str]:
    match = _HEAD.match(line)
    if match is None:
        raise StoreError("the sampler's file is damaged")
    return float(match["t"]), match["source"].decode()


def _lines(directory: Path) -> Iterator[bytes]:
    try:
        with (directory / FILE).open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    return  # its end may be written meanwhile, and would be read as a line
                yield line
    except OSError as err:
        raise StoreError(f'cannot read "{directory / FILE}": {err.strerror}') from err
