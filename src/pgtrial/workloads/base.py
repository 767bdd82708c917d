"""The common interface of load generators: how to call one, and how to parse its output."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """How a program is driven that tells of its requests as they end, and that works until it is told to end.

    It works for ``seconds`` from its first line on. ``record`` is the file that takes its lines, None: they are only
    counted. ``translate`` makes of a line of its output one as store/command_line.py reads it, None of one that tells
    of no request. ``needs_lag``: it has to say of each request how late it was sent. A line may tell of ``longest``
    seconds. ``good_ends`` are statuses beside 0 that say no more than that it was told to end.

    One that ``ends_itself`` is not told to end, and one that ``begins_silently`` works from its start on. ``left``
    reads the lines that it has written into a file by its end; it raises LineError. Lines of one that ``tells_no_time``
    are of the time at which they are read. Lines of its standard error are translated, too, where these ``errors_tell``
    what later lines mean; what ``is_noise`` of them is not repeated to anybody.
    """

    seconds: float
    record: str | None
    translate: Callable[[str], str | None]
    needs_lag: bool
    longest: float
    good_ends: frozenset[int] = frozenset()
    ends_itself: bool = False
    begins_silently: bool = False
    tells_no_time: bool = False
    left: Callable[[], Iterator[str]] | None = None
    errors_tell: bool = False
    is_noise: Callable[[str], bool] = lambda _line: False


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """One process of a load generator.

    ``argv_tail`` follows the ``program``. The environment (PGHOST and the like) locates the server; ``environment`` is
    added to it. ``scenario_names`` are in the order of pgbench's script numbers. It starts in ``directory``, where its
    ``scripts`` (text by name of the file) have to be, and where the names of its logs begin with ``log_prefix`` and a
    dot or an underscore; None if it writes no log.
    ``groups`` are directories of control groups in which it starts.
    ``results``: it keeps no log and ends by no clock of its own. ``machine`` is the number of the machine on which it
    runs, where the load comes from others; its directory is there until its logs have been ``reduced``, and their sums
    fetched.
    """

    program: Path | str  # a name is looked up as a shell does
    argv_tail: tuple[str, ...]
    environment: Mapping[str, str]
    scenario_names: tuple[str, ...]
    clients: int
    directory: str
    log_prefix: str | None
    scripts: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    results: Results | None = None
    machine: int | None = None
    reduced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A generator's report on the time since its previous report.

    ``t`` is its end in seconds since the epoch (with --progress-timestamp), ``tps`` in 1/s; ``latency`` and ``lag`` are
    means in seconds. A value that was not printed, or a mean over no transactions, is None.
    """

    t: float | None
    tps: float
    latency: float | None
    lag: float | None = None
    failed: int | None = None
    skipped: int | None = None
    retried: int | None = None
    retries: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A generator's final report on all its scenarios; times in seconds, None for values not printed.

    ``processed`` excludes ``failed`` and ``skipped``; ``tps`` excludes the time to connect. A job that is done when its
    ``work`` is has that.
    """

    processed: int | None
    tps: float | None = None
    failed: int | None = None
    skipped: int | None = None
    late: int | None = None
    retried: int | None = None
    retries: int | None = None
    serialization_failures: int | None = None
    deadlock_failures: int | None = None
    clients: int | None = None
    latency_mean: float | None = None
    lag_mean: float | None = None
    connection_time: float | None = None
    said: str = ""  # last, beside its results
    work: "Work | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A given amount of requests: from when to when they took, in seconds since the epoch, and their latencies by the
    buckets of model/histogram.py.
    """

    started: float
    ended: float
    latencies: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Parsers for the output of a kind of load generator.

    Progress appears as lines of one output stream, among other lines (for which ``parse_progress`` returns None), each
    second; one that ``is_prompt`` tells of its first second at once, and not when it has settled.
    ``parse_summary`` and ``find_errors`` receive both streams, without progress lines, after the program has ended.
    """

    program: str  # its name
    progress: Literal["stdout", "stderr"]
    is_prompt: bool
    parse_progress: Callable[[str], Progress | None]
    parse_summary: Callable[[str, str], Summary]
    find_errors: Callable[[str, str], Sequence[str]]


def derive_seed(seed: int, level: int, name: str) -> int:
    """Derive well-separated seeds from similar names, to seed consecutive random number generators."""
    digest = hashlib.blake2b(f"{seed}/{level}/{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
