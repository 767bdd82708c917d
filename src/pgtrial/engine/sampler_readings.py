"""What the sampler holds open and adds up: the files of /proc, and the session groups of a second."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg.pq.abc import PGresult

from pgtrial.collectors import COLLECTORS
from pgtrial.collectors.base import FileCollector

_READ_SIZE = 1 << 16


@dataclass(slots=True)
class OpenFile:
    """A file of /proc that is opened once: opening costs more than reading."""

    collector: FileCollector
    fd: int

    def read(self) -> str:
        parts: list[bytes] = []
        offset = 0
        # One read gives a page or so of such a file, however much is asked for.
        while part := os.pread(self.fd, _READ_SIZE, offset):
            parts.append(part)
            offset += len(part)
        return b"".join(parts).decode("ascii", "replace")


@dataclass(slots=True)
class SessionSums:
    """Session groups added up since the last tick. ``t`` is the time of the first poll."""

    t: float = 0.0
    polls: int = 0
    columns: tuple[str, ...] = ()
    groups: dict[tuple[bytes | None, ...], int] = field(default_factory=dict)

    def add(self, t: float, result: PGresult) -> None:
        self.columns, count_column = columns_of(result), result.nfields - 1
        if not self.polls:
            self.t = t
        self.polls += 1
        for row in range(result.ntuples):
            group = tuple([result.get_value(row, column) for column in range(count_column)])
            self.groups[group] = self.groups.get(group, 0) + int(result.get_value(row, count_column) or 0)

    def drain(self) -> dict[str, Any]:
        rows = [[*_texts(group), str(count)] for group, count in self.groups.items()]
        payload = {"polls": self.polls, "columns": self.columns, "rows": rows}
        self.polls = 0
        self.groups.clear()
        return payload


def open_files() -> tuple[list[OpenFile], dict[str, str]]:
    """The files that can be read here, and why the others cannot."""
    files: list[OpenFile] = []
    absent: dict[str, str] = {}
    for collector in COLLECTORS:
        if isinstance(collector, FileCollector):
            try:
                file = OpenFile(collector, os.open(collector.path, os.O_RDONLY | os.O_CLOEXEC))
                file.read()
            except OSError as err:
                absent[collector.name] = f"{collector.path}: {err.strerror}"
            else:
                files.append(file)
    return files, absent


def columns_of(result: PGresult) -> tuple[str, ...]:
    return tuple([(result.fname(column) or b"").decode() for column in range(result.nfields)])


def rows_of(result: PGresult) -> list[list[str | None]]:
    columns = range(result.nfields)
    return [_texts([result.get_value(row, column) for column in columns]) for row in range(result.ntuples)]


def _texts(values: Sequence[bytes | None]) -> list[str | None]:
    return [None if value is None else value.decode("utf-8", "replace") for value in values]
