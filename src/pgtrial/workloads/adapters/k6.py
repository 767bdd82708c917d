"""Have k6 tell of each iteration of its script, which it writes as points of a metric.

An iteration is what one virtual user does before it begins anew, so its duration is that of a request only where the
script makes one request in it: the extension for SQL has no metric of its own. An iteration with a check that fails is
a request that fails. So is one that an error of the script ended, such as that of a query: to k6 it is one like any
other, often a short one, and only its log has the error, at once and to the second, without whose it is. As many of the
next iterations are counted as failures; one with a check that failed before, as two. k6 drops iterations for which no
virtual user is free: it has fallen behind then, and nothing is known of those.
Source: the k6 manual, "JSON output" and "Built-in metrics"; k6 1.8.1, internal/output/json/json.go, lib/options.go
(Apply), lib/executor/helpers.go (getIterationRunner), internal/js/runner.go (runFn) and errext/exitcodes/codes.go.
"""

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pgtrial.store.command_line import LineError
from pgtrial.workloads.adapters.base import WITHOUT_ADDRESS, Adapter, Files, Translate

_ENDED_FROM_OUTSIDE = 105
# Most of its lines; those of nobody's interest are not parsed, on the machine that is measured.
_OTHER_POINTS = tuple(f'{{"metric":"{name}' for name in ("data_sent", "data_received", 'iterations"', "vus"))
_WORD = r'(?:"(?:[^"\\]|\\.)*"|[^" ]\S*)'
_ERROR_OF_ITERATION = re.compile(rf"time={_WORD} level=error msg={_WORD} executor={_WORD} scenario={_WORD}(?: |$)")
_TOLD_TO_END = re.compile(rf'time={_WORD} level=error msg="test run was aborted because k6 received a ')


def arrange(command: Sequence[str]) -> tuple[str, ...]:
    """``command`` is k6, "run", and the script with its options. The script says how long and how much: users or a
    duration of ours would replace its scenarios, and with them its rate.
    """
    program, *words = command
    return (
        *WITHOUT_ADDRESS,
        program,
        *words,
        "--out",
        "json=-",
        "--system-tags=check,group,scenario,vu",
        "--quiet",
        "--no-color",
        "--no-usage-report",
        "--summary-mode=disabled",
        "--log-output=stderr",
        "--log-format=text",
    )


def translator(_files: Files) -> Translate:
    failing = set[str]()  # virtual users, of whose iteration a check has failed
    errors = 0  # that its log has told, of iterations whose points are still to come

    def translate(line: str) -> str | None:
        """A point of a metric as a line; LineError where k6 says that it did less than it was told to."""
        nonlocal errors
        if line.startswith(_OTHER_POINTS):
            return None
        if not line.startswith("{"):
            errors += _ERROR_OF_ITERATION.match(line) is not None
            return None
        try:
            return of_point(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            raise LineError("it is none that k6 writes") from err

    def of_point(point: dict[str, Any]) -> str | None:
        if point["type"] != "Point":
            return None
        data: dict[str, Any] = point["data"]
        match point["metric"]:
            case "iteration_duration":
                told = {"t": datetime.fromisoformat(data["time"]).timestamp()}
                is_done = not has_failed(data["metadata"]["vu"])
                return json.dumps(told | ({"latency": data["value"] / 1000} if is_done else {"failed": True}))
            case "checks" if data["value"] == 0 and "scenario" in data["tags"]:  # set-up and tear-down have none
                failing.add(data["metadata"]["vu"])
            case "dropped_iterations":
                raise LineError(f"k6 has dropped {data['value']:g} iterations that were due: it fell behind its rate")
        return None

    def has_failed(user: str) -> bool:
        nonlocal errors
        if user in failing:
            failing.remove(user)
            return True
        if errors:
            errors -= 1
            return True
        return False

    return translate


ADAPTER = Adapter(
    name="k6",
    arrange=arrange,
    translator=translator,
    good_ends=frozenset({_ENDED_FROM_OUTSIDE}),
    errors_tell=True,
    is_noise=lambda line: _TOLD_TO_END.match(line) is not None,
)
