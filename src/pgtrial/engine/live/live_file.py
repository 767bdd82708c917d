"""live.json: what there is to see of the experiment at work in a result folder, for those who look from outside.

The file is one record, which is overwritten in place: a rename would have some file systems write it to the disk at
once, every second, beside the load. So a reader may see a part of the old and a part of the new; a checksum tells.
It is a convenience and no result: a pgtrial that ends takes it away, one that is killed leaves it.
"""

import contextlib
import json
import os
import stat
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.engine.live.decode import decode_view
from pgtrial.engine.live.view import LiveView
from pgtrial.store import layout

_MOST = 1 << 20  # bytes; of three arms with all their figures it has some ten thousand
_TRIES = 3


@dataclass(slots=True, kw_only=True)
class LiveFile:
    """Writes it; what cannot be written is left out, for the experiment is worth more than the sight of it."""

    folder: Path
    _fd: int | None = field(default=None, init=False)

    def write(self, view: LiveView) -> None:
        text = json.dumps(view.as_dict(), allow_nan=False, separators=(",", ":")).encode()
        with contextlib.suppress(OSError):
            if self._fd is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
                self._fd = os.open(self.folder / layout.LIVE, flags, 0o644)
            os.pwrite(self._fd, b"%08x %d\n%s\n" % (zlib.crc32(text), len(text), text), 0)

    def remove(self) -> None:
        """Take the file away, if it was made here."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            (self.folder / layout.LIVE).unlink(missing_ok=True)


def read_live(folder: Path) -> LiveView | None:
    """What a pgtrial at work last wrote; None where there is nothing that can be read."""
    for _ in range(_TRIES):
        data = _read(folder / layout.LIVE)
        if data is None:
            return None
        head, _, rest = data.partition(b"\n")
        with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
            digest, length = head.split(b" ")
            text = rest[: int(length)]
            if int(digest, 16) == zlib.crc32(text) and len(text) == int(length):
                return decode_view(json.loads(text))
    return None


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
