"""The result folders in the served directory, with a one-line summary of each.

Only folders inside that directory: no name leads out of it, and links are not followed.
"""

import hashlib
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from pgtrial.engine.folder import is_locked
from pgtrial.engine.status import Status, read_status
from pgtrial.errors import PgTrialError, StoreError
from pgtrial.findings.caveat import BESIDE_VERDICT
from pgtrial.findings.message import Message, in_english
from pgtrial.model.verdict import Verdict
from pgtrial.safe_text import make_visible, parse_json
from pgtrial.store import layout
from pgtrial.store.findings_file import MOST_FINDINGS
from pgtrial.store.state import State

UNREADABLE = "unreadable"
_WATCHED = (layout.STATE, f"{layout.STATE}-wal", layout.FINDINGS, layout.REPORT)
_MOST_FOLDERS = 10_000
_ID_LENGTH = 16  # hexadecimal digits


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFolder:
    """A result folder, or that of a watch. ``id`` stands for it in addresses, which therefore never have a name that
    somebody chose.
    """

    id: str
    name: str
    path: Path


def find_root(path: Path) -> Path:
    """The directory to serve, with links resolved once and for all. Raises StoreError if it is none."""
    try:
        root = path.resolve(strict=True)
    except OSError as err:
        raise StoreError(
            f'cannot open "{path}": {err.strerror}',
            hint="Name a result folder, or a directory of result folders, such as results.",
        ) from err
    except RuntimeError as err:
        raise StoreError(f'cannot open "{path}": its symbolic links form a loop') from err
    if not root.is_dir():
        raise StoreError(
            f'"{path}" is not a directory',
            hint="Name a result folder, or a directory of result folders, such as results.",
        )
    return root


def find_places(root: Path, mark: str = layout.STATE) -> tuple[ServedFolder, ...]:
    """The root itself where it has the plain file ``mark``, by which result folders are known, else every folder in it
    that does, by name. Raises StoreError.

    Not what is linked there from elsewhere, and no hidden folder: a new one is hidden until it is whole.
    """
    if file_status(root, mark) is not None:
        return (_place(root, root.name),)
    try:
        with os.scandir(root) as entries:
            names = sorted(
                entry.name
                for entry, _ in zip(entries, range(_MOST_FOLDERS), strict=False)
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            )
    except OSError as err:
        raise StoreError(f'cannot read "{root}": {err.strerror}') from err
    return tuple(_place(root / name, name) for name in names if file_status(root / name, mark) is not None)


def file_status(folder: Path, name: str) -> os.stat_result | None:
    """Of a plain file in a folder; None where there is none, or a link."""
    try:
        found = (folder / name).lstat()
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


@contextmanager
def open_inside(place: ServedFolder, name: str) -> Iterator[tuple[BinaryIO, int] | None]:
    """A plain file of a result folder, and its size; None where there is none.

    Neither the folder nor the file may have become a link since it was found: each is opened as what it is.
    """
    fd = _open_plain(place.path, name)
    if fd is None:
        yield None
        return
    with os.fdopen(fd, "rb") as file:
        yield file, os.fstat(fd).st_size


def _open_plain(path: Path, name: str) -> int | None:
    """Descriptor of a plain file, None if it is anything else."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # Not blocking, as a pipe of that name would, to which nobody writes.
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return None
    finally:
        os.close(folder)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def _place(path: Path, name: str) -> ServedFolder:
    return ServedFolder(id=hashlib.sha256(os.fsencode(name)).hexdigest()[:_ID_LENGTH], name=name, path=path)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSummary:
    """``state`` is running, complete, interrupted or unreadable, and then ``reason`` says why.

    ``verdict`` is "" while there is none, or while what was concluded earlier is being added to; ``started`` is in
    seconds since the epoch.
    """

    id: str
    name: str
    state: str
    started: float | None = None
    runs: int = 0
    done: int = 0
    blocks: int = 0
    invalid: int = 0
    current: str = ""
    arms: tuple[str, ...] = ()
    claim: str = ""
    verdict: str = ""
    provisional: bool = False  # of the verdict: blocks are still to come
    reason: str = ""
    beside: tuple[str, ...] = ()  # what has to be said with the verdict
    has_report: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For JSON, with what would steer a display written out."""
        return {
            key: make_visible(value) if isinstance(value, str) else value
            for key, value in asdict(
                replace(self, arms=tuple(map(make_visible, self.arms)), beside=tuple(map(make_visible, self.beside)))
            ).items()
        }


@dataclass(slots=True, kw_only=True)
class Shelf:
    """The experiments of the served directory. Used by several threads."""

    root: Path
    _known: dict[str, tuple[object, FolderSummary]] = field(default_factory=dict, init=False)  # by id
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def places(self) -> tuple[ServedFolder, ...]:
        """Raises StoreError when the directory cannot be read any more."""
        return find_places(self.root)

    def find(self, place_id: str) -> ServedFolder | None:
        return next((place for place in self.places() if place.id == place_id), None)

    def summaries(self) -> list[FolderSummary]:
        """The latest first; what cannot be read last. Raises StoreError as ``places``."""
        places = self.places()
        with self._lock:
            gone = set(self._known) - {place.id for place in places}
            for place_id in gone:
                del self._known[place_id]
        found = [self.summary(place) for place in places]
        return sorted(found, key=lambda one: (-(one.started or 0.0), one.name))

    def summary(self, place: ServedFolder) -> FolderSummary:
        """What is known of one; never an error."""
        signature = _signature(place.path)
        with self._lock:
            known = self._known.get(place.id)
        if known is not None and known[0] == signature:
            return known[1]
        summary = _summarize(place)
        with self._lock:
            self._known[place.id] = (signature, summary)
        return summary


def _signature(folder: Path) -> object:
    """Something else when what a summary says may have changed."""
    stats = (file_status(folder, name) for name in _WATCHED)
    found = tuple(None if one is None else (one.st_ino, one.st_size, one.st_mtime_ns) for one in stats)
    return is_locked(folder), found


def _summarize(place: ServedFolder) -> FolderSummary:
    has_report = file_status(place.path, layout.REPORT) is not None
    summary = FolderSummary(id=place.id, name=place.name, state=UNREADABLE, has_report=has_report)
    try:
        status, started = read_status(place.path), _started(place.path)
    except PgTrialError as err:
        return replace(summary, reason=err.message)
    summary = _with_status(summary, status, started)
    return summary if status.state == "running" else _with_headline(summary, place)


def _started(folder: Path) -> float | None:
    """When the first run began."""
    with closing(State.open(folder)) as state:
        return min((run.started for run in state.runs() if run.started is not None), default=None)


def _with_status(summary: FolderSummary, status: Status, started: float | None) -> FolderSummary:
    return replace(
        summary,
        state=status.state,
        started=started,
        runs=status.slots,
        done=status.done,
        blocks=status.blocks,
        invalid=status.invalid,
        current=status.current,
        arms=status.arms,
    )


def _with_headline(summary: FolderSummary, place: ServedFolder) -> FolderSummary:
    """With claim and verdict of findings.json, where they can be read: the report says what is wrong with the rest."""
    with open_inside(place, layout.FINDINGS) as opened:
        if opened is None or opened[1] > MOST_FINDINGS:
            return summary
        data = opened[0].read(MOST_FINDINGS)
    try:
        found = parse_json(data)
        asked = found["hypothesis"]
        claim, verdict = str(asked["claim"]), Verdict(asked["verdict"])
        reason = in_english(Message.model_validate(asked["reason"]))
        provisional = bool(asked.get("provisional", False))
        beside = tuple(str(each["text"]) for each in found.get("caveats", ()) if each["code"] in BESIDE_VERDICT)
    except (ValueError, LookupError, TypeError, AttributeError):
        return summary
    return replace(summary, claim=claim, verdict=verdict.value, provisional=provisional, reason=reason, beside=beside)
