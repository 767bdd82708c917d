"""The experiments that were begun on this machine, by their claim: whoever tries often enough is right in the end."""

import json
import logging
import os
from pathlib import Path

from pgtrial.errors import StoreError
from pgtrial.store.journal_file import make_state_directory

ATTEMPTS = "attempts.jsonl"  # in the state directory
_LONGEST = 100_000_000  # bytes that are read of it

_log = logging.getLogger(__name__)


def note_attempt(claim: str, *, digest: str, folder: Path, t: float) -> int | None:
    """Record that an experiment is begun; the number of earlier ones with the same claim, None if it is not known."""
    line = json.dumps({"t": t, "claim": claim, "digest": digest, "folder": str(folder)}) + "\n"
    try:
        state = make_state_directory()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(state / ATTEMPTS, flags, 0o600), "rb+", buffering=0) as file:
            known = file.read(_LONGEST) or b""
            file.write(line.encode())  # one call: lines of two programs do not mix
    except (OSError, StoreError) as err:
        _log.info("attempts are not counted: %s", err)
        return None
    return sum(_claim_of(each) == claim for each in known.splitlines())


def _claim_of(line: bytes) -> object:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found.get("claim") if isinstance(found, dict) else None
