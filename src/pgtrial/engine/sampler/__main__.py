"""The sampler: a process of its own that reads everything once a second, and sessions ten times, at random moments.

``python -m pgtrial.engine.sampler`` takes its configuration as one line of JSON on standard input, says "ready" after
the first readings are on disk, and runs until standard input closes, SIGTERM, or the death of its parent. Whatever else
comes there asks for readings out of turn, after which it says what time it is. It imports psycopg and little else.
"""

import ctypes
import gc
import os
import select
import signal
import sys
import time
from pathlib import Path

from pgtrial.engine.sampler.config import LoopConfig
from pgtrial.engine.sampler.files import ReaderError
from pgtrial.engine.sampler.link import LinkError
from pgtrial.engine.sampler.loop import Loop
from pgtrial.engine.sampler.spool import SpoolWriter

READY = b"ready\n"
_PR_SET_PDEATHSIG = 1
_WORDS = 64  # bytes of what is asked, at most


def _die_with(parent: int) -> None:
    """End when the parent does. Its pipe closes then too, but a child it forked may still hold the other end."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)


def main() -> int:
    """Run the sampler; 1 when it cannot start or cannot write, with the reason on standard error."""
    wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    with open(0, "rb", buffering=0, closefd=False) as standard_input:
        config = LoopConfig.of_line(standard_input.readline())
    _die_with(config.parent)
    control = select.poll()
    control.register(wake, select.POLLIN)
    control.register(0, select.POLLIN)
    try:
        loop = Loop(config, SpoolWriter(Path(config.spool)))
        loop.start()
        signal.signal(signal.SIGCONT, loop.thaw)
        gc.freeze()  # keeps the collector from scanning imported modules again and again
        os.write(1, READY)
        while loop.run(control, wake) and os.read(0, _WORDS):
            loop.read_now()
            os.write(1, b"%r\n" % time.time())
        loop.stop()
    except (LinkError, ReaderError) as err:
        print(err, file=sys.stderr)
        return 1
    except OSError as err:
        print(f"{err.strerror}: {err.filename or config.spool}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
