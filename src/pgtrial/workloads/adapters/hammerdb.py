"""Have HammerDB's transaction counter tell each second how many transactions the server made.

It is the only figure that HammerDB gives while it works, and it has no latency. It counts what the server counts, of
all its databases: commits, rollbacks, and the few transactions of whoever else is connected, such as pgtrial's sampler.
A procedure that failed has a line of its own, as long as "pg_raiseerror" is false, and is among the rollbacks as well,
from which it is taken off.
Each line begins with a carriage return. The script has to set "tcset refreshrate 1" and to start the counter by
"tcstart" before "vurun". Source: HammerDB, src/postgresql/pgoltp.tcl, and pgotc.tcl, where the number printed is the
difference of two readings times 60.
"""

import json
import re
import time
from collections.abc import Callable

from pgtrial.store.command_line import LineError
from pgtrial.workloads.adapters.base import Adapter, Files, Translate

_COUNTED = re.compile(r"(?P<tpm>\d{1,18}) PostgreSQL tpm\b")
_MULTIPLIER = 60  # at a refresh rate of one second
_LATE = 1.9  # s between two lines that are a second apart, on a busy machine
_ENDED = re.compile(r"Vuser \d+:FINISHED FAILED")
_FAILED = re.compile(r"Vuser \d+:.* Procedure Error\b")


def translator(_files: Files, now: Callable[[], float] = time.time) -> Translate:
    """A line is of the time since the line before."""
    last: list[float] = []  # the time of the line before, if there was one
    failed = 0  # since then

    def translate(line: str) -> str | None:
        nonlocal failed
        line = line.lstrip("\r")
        if _ENDED.match(line):
            raise LineError("a virtual user of HammerDB has failed")
        if last and _FAILED.match(line):
            failed += 1
            return None
        match = _COUNTED.match(line)
        if match is None:
            return None
        t = now()
        before = last[-1] if last else None
        last[:] = [t]
        if before is None:
            return json.dumps({"ready": True})  # the counter's first line is of no time
        count, rest = divmod(int(match["tpm"]), _MULTIPLIER)
        if rest or t - before > _LATE:
            raise LineError('the counter does not tell each second; the script needs "tcset refreshrate 1"')
        told = {"t": t, "seconds": t - before, "count": max(0, count - failed), "failed": failed}
        failed = 0
        return json.dumps(told)

    return translate


ADAPTER = Adapter(name="hammerdb", translator=translator, tells_no_time=True)
