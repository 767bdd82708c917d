"""Messages that name things, for use inside of others."""

from collections.abc import Iterable, Mapping

from pgtrial.findings.catalogue.series import SERIES
from pgtrial.findings.catalogue.verdict import METRICS
from pgtrial.findings.message import Message, message, verbatim
from pgtrial.findings.questions import DataFit, PageGain
from pgtrial.findings.session_time import BLOCKED, CPU, CPU_QUEUE, IDLE_IN_TRANSACTION, OUTSIDE, POOL, SCHEDULE_LAG
from pgtrial.model.run import LoadLevel

# By the kinds of events in a server's log (store/server_log/facts.py).
_EVENT_KINDS: Mapping[str, str] = {
    "checkpoint": "log-kind.checkpoint",
    "autovacuum": "log-kind.autovacuum",
    "autoanalyze": "log-kind.autoanalyze",
    "temporary file": "log-kind.temporary-file",
    "lock wait": "log-kind.lock-wait",
    "deadlock": "log-kind.deadlock",
    "slow statement": "log-kind.slow-statement",
    "error": "log-kind.error",
    "not English": "log-kind.other-language",
}
UNKNOWN_STATEMENT = "(text not known)"  # in the place of a statement's text
_PARTS = {
    CPU: "part.cpu",
    CPU_QUEUE: "part.cpu-queue",
    BLOCKED: "part.blocked",
    IDLE_IN_TRANSACTION: "part.idle-in-transaction",
    OUTSIDE: "part.outside",
    f"{OUTSIDE} {SCHEDULE_LAG}": "part.schedule-lag",
    f"{OUTSIDE} {POOL}": "part.pool",
}


def name_level(level: LoadLevel) -> Message:
    """ "8 clients", "500 tps, 8 clients", "40 to 400 clients, by arm"."""
    if level.by_arm is not None:
        return message("level.clients-by-arm", fewest=level.by_arm[0], most=level.by_arm[1])
    if level.rate is None:
        return message("level.clients", count=level.clients)
    return message("level.rate", count=level.clients, rate=level.rate)


def name_runs(runs: Iterable[int]) -> Message:
    """ "run 3", "runs 1–4, 7"."""
    ranges: list[list[int]] = []
    for run in sorted(runs):
        if ranges and run == ranges[-1][1] + 1:
            ranges[-1][1] = run
        else:
            ranges.append([run, run])
    texts = [str(first) if first == last else f"{first}–{last}" for first, last in ranges]
    is_single = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return message("run" if is_single else "runs", runs=", ".join(texts))


def name_series(metric: str) -> Message:
    """What a series of timelines is: "vmstat.us"; "waits." stands for those of all types."""
    return message(f"series.{metric.removesuffix('.')}")


def name_metric(name: str) -> Message | str:
    """What a metric of a run is called within a sentence: "median latency", "iostat.r_await (time of a read)"."""
    metric, _, about = name.partition("/")
    kind, _, last = metric.partition(".")
    if last.startswith("latency_"):
        return message(f"metric.{last.replace('_', '-')}")
    if f"metric.{metric}" in METRICS:
        return message(f"metric.{metric}")
    if kind in ("waits", "wait"):
        return message("metric.waits", part=name_part(last, about))
    if f"series.{metric}" in SERIES:
        return message("metric.series", name=name, words=name_series(metric))
    return name


def name_event_kind(kind: str) -> Message:
    """What a kind of event in a server's log is called, also "error 40001"; one that is not known is its own name."""
    if kind in _EVENT_KINDS:
        return message(_EVENT_KINDS[kind])
    first, _, state = kind.partition(" ")
    return message("log-kind.error-of-state", state=state) if first == "error" else verbatim(kind)


def name_gain(gain: PageGain) -> Message:
    """ "+6.1 % (+4.0 % to +8.2 %)"."""
    if gain.ratio is None:
        return message("gain.unknown")
    if gain.low is None or gain.high is None:
        return message("gain.change", change=gain.ratio)
    return message("gain.interval", change=gain.ratio, low=gain.low, high=gain.high)


def name_data(fit: DataFit) -> Message:
    """ "scale 10, about 150 MB"."""
    if fit.scale is None:
        return message("page-data.unknown")
    if fit.data is None:
        return message("page-data.scale", scale=fit.scale)
    return message("page-data.size", scale=fit.scale, bytes=fit.data)


def name_part(kind: str, event: str = "") -> Message | str:
    """A part of a transaction's time: "CPU queue" as a message, "IO WALSync" as the server has it."""
    name = part_id(kind, event)
    return message(_PARTS[name]) if name in _PARTS else name


def name_statement(text: str) -> Message | str:
    return message("statement.unknown") if text == UNKNOWN_STATEMENT else text


def part_id(kind: str, event: str) -> str:
    """The same in English, for what has to be the same in all languages."""
    return f"{kind} {event}".strip()
