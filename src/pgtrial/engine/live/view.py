"""The live view of an experiment: plain values for the terminal and, in live.json, for other viewers.

The file is one record, which is overwritten in place: a rename would have some file systems write it to the disk at
once, every second, beside the load. So a reader may see a part of the old and a part of the new; a checksum tells.
It is a convenience and no result: a pgtrial that ends takes it away, one that is killed leaves it.
"""

import contextlib
import json
import os
import stat
import zlib
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from pgtrial.engine.events import Count, EstimateUpdated, Quantity, Text
from pgtrial.model.arm import Role
from pgtrial.safe_text import check_json
from pgtrial.store import layout
from pgtrial.units import format_count, format_duration

_MOST = 1 << 20  # bytes; of three arms with all their figures it has some ten thousand
_TRIES = 3
_FEW = Field(max_length=1000)
Figures = Annotated[tuple[Quantity | None, ...], _FEW]  # None stands between two runs


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmView:
    """``tps`` (1/s) and ``p95`` (s) are the latest figures of its measured load, the newest last; None stands between
    two runs. A figure of ``tps`` is of a second, or of a whole load level where arms share their time; one of ``p95``
    is of at least a hundred sampled transactions. ``tps_now`` is the mean of the last ten seconds of load, or of the
    load level where arms share their time. ``waits`` has average numbers of active sessions, most first.
    """

    name: Text
    role: Role
    is_at_work: bool
    runs_done: Count
    tps_now: Quantity | None
    p95_now: Quantity | None
    tps: Figures
    p95: Figures
    waits: Annotated[tuple[tuple[Text, Quantity], ...], _FEW]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """``t`` is in seconds since the epoch, lengths of time in seconds.

    ``state`` is preparing, running or stopping; before the first run there is no ``run``. ``last_run`` is another than
    ``run`` where runs share their time. ``tps`` is that of the last second of load, warm-up included.
    """

    t: Quantity
    state: Text
    step: Text
    run: Count | None
    last_run: Count | None
    runs: Count
    block: Count
    arms_at_work: Annotated[tuple[Text, ...], _FEW]
    attempt: Count
    phase: Text
    level: Text
    phase_spent: Quantity
    phase_length: Quantity | None
    tps: Quantity | None
    remaining: Quantity | None
    share_done: Annotated[float, Field(ge=0, le=1)]
    arms: Annotated[tuple[ArmView, ...], _FEW]
    estimate: EstimateUpdated | None
    format: Literal[1] = 1

    def as_dict(self) -> dict[str, Any]:
        """For JSON. Not by way of dataclasses.asdict, which copies every figure with great care, every second."""
        found = {name: getattr(self, name) for name in _NAMES}
        found["arms"] = [{name: getattr(arm, name) for name in _ARM_NAMES} for arm in self.arms]
        found["estimate"] = None if self.estimate is None else asdict(self.estimate)
        return found


_NAMES = tuple(field.name for field in fields(LiveView))
_ARM_NAMES = tuple(field.name for field in fields(ArmView))


@dataclass(slots=True, kw_only=True)
class LiveFile:
    """Writes live.json. Write errors are ignored: the experiment matters more than its view."""

    folder: Path
    _fd: int | None = field(default=None, init=False)

    def write(self, view: LiveView) -> None:
        text = json.dumps(view.as_dict(), allow_nan=False, separators=(",", ":")).encode()
        with contextlib.suppress(OSError):
            if self._fd is None:
                (self.folder / layout.LIVE).unlink(missing_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
                self._fd = os.open(self.folder / layout.LIVE, flags, 0o644)
            os.pwrite(self._fd, b"%08x %d\n%s\n" % (zlib.crc32(text), len(text), text), 0)

    def remove(self) -> None:
        """Remove the file if this object made it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            (self.folder / layout.LIVE).unlink(missing_ok=True)


def read_live(folder: Path) -> LiveView | None:
    """Read the latest view; None if there is no valid one."""
    for _ in range(_TRIES):
        data = _read(folder / layout.LIVE)
        if data is None:
            return None
        head, _, rest = data.partition(b"\n")
        with contextlib.suppress(ValueError):
            digest, length = head.split(b" ")
            text = rest[: int(length)]
            if int(digest, 16) == zlib.crc32(text) and len(text) == int(length):
                check_json(text.decode())
                return _reader().validate_json(text, strict=True)
    return None


@cache
def _reader() -> TypeAdapter[LiveView]:
    return TypeAdapter(LiveView)


def _read(path: Path) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(fd, _MOST) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    except OSError:
        return None
    finally:
        os.close(fd)


def progress_parts(view: LiveView) -> list[str]:
    """The current activity in short phrases: run k of n, block, arm, phase, tps."""
    if view.state == "stopping":
        return ["stopping: ending the load and the server, removing the data …"]
    if view.run is None:
        return [f"preparing: {view.step}"]
    runs = f"run {view.run}" if view.run == view.last_run else f"runs {view.run} to {view.last_run}"
    arms = view.arms_at_work
    parts = [f"{runs} of {view.runs}", f"block {view.block}", f"arm{'' if len(arms) == 1 else 's'} {', '.join(arms)}"]
    if view.attempt > 1:
        parts.append(f"repeat {view.attempt - 1}")
    if view.phase:
        parts.append(_phase(view))
    if view.tps is not None:
        parts.append(f"{format_count(view.tps)} tps")
    return parts


def time_left(view: LiveView) -> str:
    """ "3 min 20 s left"; "" where that is not known."""
    if view.state == "stopping" or view.remaining is None:
        return ""
    return f"{format_duration(round(view.remaining))} left"


def _phase(view: LiveView) -> str:
    text = f"{view.phase} {view.level}" if view.level else view.phase
    if view.phase_length is not None:
        text += f" {min(view.phase_spent, view.phase_length):.0f}/{view.phase_length:.0f} s"
    return text
