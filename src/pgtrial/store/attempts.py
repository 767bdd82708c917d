"""The experiments that were begun on this machine, by their claim: whoever tries often enough is right in the end."""

import fcntl
import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgtrial.errors import StoreError
from pgtrial.safe_files import read_file
from pgtrial.store.journal_file import check_owner, make_state_directory, state_directory

ATTEMPTS = "attempts.jsonl"  # in the state directory
_LONGEST = 100_000_000  # bytes that are read of it

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """The digest of an experiment when it was begun, and the number of earlier attempts; None: not noted yet then."""

    digest: str
    before: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """By what the attempts at a claim are counted: the digest of what is tested, and that of the ``words`` of its file,
    which is all that older versions noted. Whatever was noted by words that stand for the same test is an attempt.
    """

    test: str
    words: str

    def pick(self, lines: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
        """The lines of its attempts."""
        noted = [(claim, line) for line in lines if isinstance(claim := line.get("claim"), str)]
        words = {self.words, *(claim for claim, line in noted if line.get("test") == self.test)}
        return [line for claim, line in noted if claim in words]


def note_attempt(claim: Claim, *, digest: str, folder: Path, t: float) -> int | None:
    """Record that an experiment is begun; the number of earlier ones with the same claim, None if it is not known."""
    line = {"t": t, "claim": claim.words, "test": claim.test, "digest": digest, "folder": str(folder)}
    return _append(line, claim=claim)


def find_attempts(folder: Path, t: float | None) -> tuple[Noted, ...]:
    """What was noted of the experiment of a folder, which is known by the time ``t`` of its record, also in a copy, or
    by its place; () where nothing was.

    Of experiments that were begun in the same second, several may have been noted at one place.
    """
    place = str(folder.absolute())
    return tuple(
        Noted(digest=digest, before=before if isinstance(before := line.get("before"), int) else None)
        for line in _read()
        if isinstance(digest := line.get("digest"), str)
        and (line.get("folder") == place or (t is not None and line.get("t") == t))
    )


def withdraw_attempt(t: float) -> None:
    """Record that the attempt noted at ``t`` ended before its first run: it has seen nothing, and is no attempt."""
    _append({"withdrawn": t})


def note_runs(t: float, runs: int) -> None:
    """Record that the attempt noted at ``t`` has begun so many runs."""
    _append({"of": t, "runs": runs})


def runs_noted(t: float) -> int:
    """How many runs the attempt noted at ``t`` had begun at most, as far as that can be read."""
    return max(
        (runs for line in _read() if line.get("of") == t and isinstance(runs := line.get("runs"), int)), default=0
    )


def count_attempts(claim: Claim) -> int:
    """How many there were, as far as that can be read."""
    return _count(_read(), claim)


def first_attempt(claim: Claim) -> float | None:
    """When the first attempt in the list was made, also of those that were withdrawn: the attempts of one list have it
    in common. None if it cannot be read; s since the epoch.
    """
    found = (t for line in claim.pick(_read()) if isinstance(t := line.get("t"), float))
    return min(found, default=None)


def _read() -> list[Mapping[str, object]]:
    try:
        check_owner(path := state_directory() / ATTEMPTS)
        return _lines(read_file(path, limit=_LONGEST))
    except (OSError, ValueError, StoreError) as err:
        _log.info("attempts are not counted: %s", err)
        return []


def _append(line: Mapping[str, object], *, claim: Claim | None = None) -> int | None:
    """Add a line, of an attempt at a ``claim`` with the number of earlier ones; that number, None where neither is
    possible.
    """
    try:
        state = make_state_directory()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(state / ATTEMPTS, flags, 0o600), "rb+", buffering=0) as file:
            check_owner(state / ATTEMPTS)
            fcntl.flock(file, fcntl.LOCK_EX)  # of attempts that begin together each knows the ones before it
            known = file.read(_LONGEST) or b""
            # A line that was cut off, by a machine that went down, takes no other one with it.
            begin = b"\n" if known and not known.endswith(b"\n") else b""
            before = 0 if claim is None else _count(_lines(known), claim)
            file.write(begin + f"{json.dumps(line if claim is None else {**line, 'before': before})}\n".encode())
    except (OSError, StoreError) as err:
        _log.info("attempts are not counted: %s", err)
        return None
    return before


def _lines(known: bytes) -> list[Mapping[str, object]]:
    return [*map(_parse, known.splitlines())]


def _count(lines: Sequence[Mapping[str, object]], claim: Claim) -> int:
    begun = {line["of"] for line in lines if isinstance(line.get("of"), float)}  # perhaps in a copy of its folder
    withdrawn = {line["withdrawn"] for line in lines if isinstance(line.get("withdrawn"), float)} - begun
    return sum(line.get("t") not in withdrawn for line in claim.pick(lines))


def _parse(line: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("t", 0.0), float) else {}
