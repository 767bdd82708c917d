"""Have k6 tell of each iteration of its script, which it writes as points of a metric.

An iteration is what one virtual user does before it begins anew, so its duration is that of a request only where the
script makes one request in it: the extension for SQL has no metric of its own. A check that fails is a request that
fails. k6 drops iterations for which no virtual user is free: it has fallen behind then, and nothing is known of those.
Source: the k6 manual, "JSON output" and "Built-in metrics"; output/json/json.go, lib/options.go (Apply) and
errext/exitcodes/codes.go.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pgtrial.store.command_line import LineError
from pgtrial.workloads.adapters.base import WITHOUT_ADDRESS, Adapter, Files, Translate

_ENDED_FROM_OUTSIDE = 105


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
        "--quiet",
        "--no-color",
        "--no-usage-report",
        "--summary-mode=disabled",
    )


def translate(line: str) -> str | None:
    """A point of a metric as a line; LineError where k6 says that it did less than it was told to."""
    if not line.startswith("{"):
        return None
    try:
        return _of_point(json.loads(line))
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise LineError("it is none that k6 writes") from err


def _of_point(point: dict[str, Any]) -> str | None:
    if point["type"] != "Point":
        return None
    data: dict[str, Any] = point["data"]
    match point["metric"]:
        case "iteration_duration":
            # Set-up and tear-down have one as well.
            if data.get("tags", {}).get("group") in ("::setup", "::teardown"):
                return None
            return json.dumps({"t": _seconds(data["time"]), "latency": data["value"] / 1000})
        case "checks" if data["value"] == 0:
            return json.dumps({"t": _seconds(data["time"]), "failed": True})
        case "dropped_iterations":
            raise LineError(f"k6 has dropped {data['value']:g} iterations that were due: it fell behind its rate")
    return None


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _translator(_files: Files) -> Translate:
    return translate


ADAPTER = Adapter(name="k6", arrange=arrange, translator=_translator, good_ends=frozenset({_ENDED_FROM_OUTSIDE}))
