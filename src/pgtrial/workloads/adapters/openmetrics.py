"""Read what a program exposes at its end as OpenMetrics: how many requests it made, how many failed, their mean time.

It says {"ready": true} when its load has begun, and prints the text when it is told to end. Of a text at the end
nothing can be said about any one second: all its requests are spread evenly over its time. Buckets of its histogram are
whatever its author has chosen, so that no percentile is more exact than they are; there are none therefore. Source:
OpenMetrics 1.0, "Counter", "Histogram", "Summary" and "Text format".
"""

import json
import math
import re
import time
from collections.abc import Callable

from pgtrial.store.command_line import READY, LineError, parse_line
from pgtrial.workloads.adapters.base import Adapter, Files, Translate

_LABELS = r'\{(?:[^"{}]|"(?:\\.|[^"\\])*")*\}'  # a brace in quotes ends nothing
_SAMPLE = re.compile(
    rf"(?P<name>[a-zA-Z_:][\w:]*)(?P<labels>{_LABELS})? (?P<value>[^ ]+)(?: (?P<t>[\d.eE+-]+))?(?: # .*)?$"
)
_COUNTS = ("_total", "_count", "_sum", "_created")
_END = "# EOF"
# What its metrics are called: a counter, or a histogram or summary of seconds, and a counter of what failed.
_NAMES = ("requests", "requests_failed", "request_duration_seconds")


def translator(_files: Files, now: Callable[[], float] = time.time) -> Translate:
    """It adds up the samples of a name, whatever their labels."""
    found: dict[str, float] = {}
    begun: list[float] = []
    seen: set[tuple[str, str]] = set()
    is_over = False

    def translate(line: str) -> str | None:
        nonlocal is_over
        if is_over and not line.startswith("#"):
            raise LineError(f"it has a text behind its {_END}: what is in both would count twice")
        if line.startswith("{"):
            if parse_line(line) is not READY:
                raise LineError('only {"ready": true} stands before a text of OpenMetrics')
            begun.append(now())
            return line
        if line.strip() == _END:
            if not begun:
                raise LineError('it has not said {"ready": true} when its load began')
            if is_over:
                return None
            is_over = True
            return json.dumps(_whole(found, begun[0], now()))
        if not line.startswith("#"):
            _add(line, found, seen)
        return None

    return translate


def _add(line: str, found: dict[str, float], seen: set[tuple[str, str]]) -> None:
    match = _SAMPLE.match(line.strip())
    if match is None:
        raise LineError("it is no sample of OpenMetrics")
    name = match["name"]
    if name.removesuffix("_bucket") != name or not any(name == f"{own}{end}" for own in _NAMES for end in _COUNTS):
        return
    sample = (name, match["labels"] or "")
    if sample in seen:
        raise LineError("it has the same sample twice, which would count twice")
    seen.add(sample)
    try:
        value = float(match["value"])
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise LineError("its value is no number")
    if name.endswith("_created"):
        found[name] = min(value, found.get(name, math.inf))
    else:
        found[name] = found.get(name, 0.0) + value


def _whole(found: dict[str, float], begun: float, ended: float) -> dict[str, float]:
    done = found.get("request_duration_seconds_count", found.get("requests_total"))
    if done is None:
        raise LineError("the text has neither requests_total nor request_duration_seconds_count")
    began = max([begun, *(value for name, value in found.items() if name.endswith("_created"))])
    told = {
        "t": ended,
        "seconds": ended - began,
        "count": int(done),
        "failed": int(found.get("requests_failed_total", 0)),
    }
    total = found.get("request_duration_seconds_sum")
    return told if total is None or done == 0 else told | {"mean": total / done}


ADAPTER = Adapter(name="openmetrics", translator=translator)
