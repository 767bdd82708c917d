"""Have go-tpc tell each second how many transactions it made, and how long they took on average.

Its percentiles cannot be put together to those of a measured time, and are of a histogram with one significant digit
that begins at 1 ms; so there are none. Counts and sums are exact. It knows no rate. An interval in which nothing ended
has no line. A worker of it ends with its first error, and all others go on, unless errors are passed over; they are
counted either way. Told to end, it waits for what is under way, up to ten seconds: the keying and thinking times of
--wait as well. Source: go-tpc, cmd/go-tpc/main.go and misc.go, pkg/measurement/hist.go, pkg/util/output.go and
tpcc/workload.go.
"""

import json
import re
import time
from collections.abc import Callable, Sequence

from pgtrial.store.command_line import LONGEST_INTERVAL, LineError
from pgtrial.workloads.adapters.base import WITHOUT_ADDRESS, Adapter, Files, Translate

_FAILED = "_ERR"  # what the name of an operation ends with, for those that failed
_INTERVAL = 0.5  # s
_LATE = 0.2  # s by which it may print an interval later than that ends
_NOISE = re.compile(r"(?:[\d/]+ [\d:.]+ )?maxprocs: ")  # how many processors it takes
_TOLD_TO_END = "Got signal ["
_ENDED_BY_FORCE = 1


def arrange(command: Sequence[str]) -> tuple[str, ...]:
    """``command`` is go-tpc, the benchmark, and its options, without "run", whose own options come behind it."""
    program, *words = command
    return (
        *WITHOUT_ADDRESS,
        program,
        *words[:1],
        "run",
        *words[1:],
        "--driver=postgres",
        "--host={host}",
        "--port={port}",
        "--user={user}",
        "--db={database}",
        "--threads={clients}",
        "--conn-params=sslmode=disable",
        "--ignore-error",
        f"--interval={_INTERVAL:g}s",
        "--output=json",
    )


def translator(_files: Files, now: Callable[[], float] = time.time) -> Translate:
    """It does not print when it was: a line is of the interval that has just ended."""

    def translate(line: str) -> str | None:
        if line.startswith(_TOLD_TO_END):  # what it did after its last interval is in no line
            return json.dumps({"t": now() - _INTERVAL - _LATE})
        if not line.startswith("[{"):
            return None
        try:
            told = _of_interval(json.loads(line), now())
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            raise LineError("it is none that go-tpc prints") from err
        return None if told is None else json.dumps(told)

    return translate


def _of_interval(operations: list[dict[str, str]], t: float) -> dict[str, float] | None:
    """What all operations of an interval did together; None of the summary at the end, and of keying and thinking."""
    own = [each for each in operations if each.get("Prefix", "").strip() == "[Current]" and "Avg(s)" not in each]
    if not own:
        return None
    done = [each for each in own if not each["Operation"].endswith(_FAILED)]
    count = sum(int(each["Count"]) for each in done)
    told = {
        "t": t,
        # From the first transaction of the interval on; one that began before the last stall is longer.
        "seconds": min(LONGEST_INTERVAL, max(float(each["Takes(s)"]) for each in own)),
        "count": count,
        "failed": sum(int(each["Count"]) for each in own) - count,
    }
    return told | {"mean": sum(float(each["Sum(ms)"]) for each in done) / 1000 / count} if count else told


ADAPTER = Adapter(
    name="go-tpc",
    arrange=arrange,
    translator=translator,
    good_ends=frozenset({_ENDED_BY_FORCE}),
    is_noise=lambda line: _NOISE.match(line) is not None,
    tells_no_time=True,
)
