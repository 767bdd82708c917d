"""Have go-tpc tell each second how many transactions it made, and how long they took on average.

Its percentiles cannot be put together to those of a measured time, and are of a histogram with one significant digit
that begins at 1 ms; so there are none. Counts and sums are exact. It knows no rate. Source: go-tpc,
pkg/measurement/hist.go, pkg/util/output.go and tpcc/workload.go.
"""

import json
import time
from collections.abc import Callable, Sequence

from pgtrial.store.command_line import LONGEST_INTERVAL, LineError
from pgtrial.workloads.adapters.base import Adapter, Files, Translate

_FAILED = "_ERR"  # what the name of an operation ends with, for those that failed


def arrange(command: Sequence[str]) -> tuple[str, ...]:
    """``command`` is go-tpc, the benchmark, and its options, without "run"."""
    program, *words = command
    return (
        program,
        *words,
        "run",
        "--driver=postgres",
        "--host={host}",
        "--port={port}",
        "--user={user}",
        "--db={database}",
        "--threads={clients}",
        "--conn-params=sslmode=disable",
        "--interval=1s",
        "--output=json",
    )


def translator(_files: Files, now: Callable[[], float] = time.time) -> Translate:
    """It does not print when it was: a line is of the second that has just ended."""

    def translate(line: str) -> str | None:
        if not line.startswith("[{"):
            return None
        try:
            told = _of_interval(json.loads(line), now())
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            raise LineError("it is none that go-tpc prints") from err
        return None if told is None else json.dumps(told)

    return translate


def _of_interval(operations: list[dict[str, str]], t: float) -> dict[str, float] | None:
    """What all operations of an interval did together; None of the summary at the end."""
    own = [each for each in operations if each.get("Prefix", "").strip() == "[Current]"]
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


ADAPTER = Adapter(name="go-tpc", arrange=arrange, translator=translator)
