"""What all load generators have in common: how one is called, what it says, and how that is read."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """One process of a load generator.

    ``argv_tail`` follows the program's name; where the server is stands in the environment (PGHOST and the like), to
    which ``environment`` is added. ``scenario_names`` are in the order of pgbench's script numbers. Its logs are
    ``log_prefix`` followed by a dot or an underscore and more; None where nothing is logged. ``groups`` are directories
    of control groups in which it begins.
    """

    argv_tail: tuple[str, ...]
    environment: Mapping[str, str]
    scenario_names: tuple[str, ...]
    clients: int
    log_prefix: str | None
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a generator tells of the time since it last did.

    ``t`` is its end in seconds since the epoch (with --progress-timestamp), ``tps`` in 1/s; ``latency`` and ``lag`` are
    means in seconds. None is what was not printed, and a mean of no transactions.
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
    """What a generator says at its end, of all its scenarios; times in seconds, None is what was not printed.

    ``processed`` does not include the ``failed`` and the ``skipped``; ``tps`` is without the time to connect.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How a kind of load generator speaks.

    Its progress comes as lines of one of its outputs, among others that are no progress (``parse_progress`` gives None
    for these). ``parse_summary`` and ``find_errors`` are given both outputs, without progress, when it has ended.
    """

    program: str  # its name
    progress: Literal["stdout", "stderr"]
    parse_progress: Callable[[str], Progress | None]
    parse_summary: Callable[[str, str], Summary]
    find_errors: Callable[[str, str], Sequence[str]]


def derive_seed(seed: int, level: int, name: str) -> int:
    """Numbers that are far apart for names that are near: generators of random numbers are seeded from it one after the
    other.
    """
    digest = hashlib.blake2b(f"{seed}/{level}/{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
