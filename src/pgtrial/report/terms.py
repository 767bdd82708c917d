"""What the values of enumerations are called where people read them; in findings they keep their names.

The scripts of the page have their texts from here too, and how numbers are written and read.
"""

from pgtrial.findings.causes import FAST, SAMPLED, STABLE, WEIGHTED, Level, Resource
from pgtrial.findings.findings import GUARD, OTHER, HypothesisFinding
from pgtrial.findings.storage import DiskStanding, FileLimit
from pgtrial.language import ENGLISH, decimal_sign, ptr, spoken, tr
from pgtrial.model.caveat import Severity
from pgtrial.model.run import PhaseName, RunState
from pgtrial.model.verdict import Decision, Verdict


def decision_word(decision: Decision) -> str:
    words = {
        Decision.BETTER: ptr("verdict", "better"),
        Decision.WORSE: ptr("verdict", "worse"),
        Decision.EQUIVALENT: ptr("verdict", "equivalent"),
        Decision.INCONCLUSIVE: ptr("verdict", "inconclusive"),
    }
    return words[decision]


def claim_word(expect: str, verdict: Verdict) -> str:
    """What a one-sided claim that is decided says of its arm; "" for others.

    An interval may lie on the right side of the claim's end of the margin and reach across the other one: then it is
    known that the arm is not worse, and not known whether it is better.
    """
    words = {
        ("not-worse", Verdict.SUPPORTED): ptr("verdict", "not worse"),
        ("better", Verdict.REFUTED): ptr("verdict", "not better"),
        ("worse", Verdict.REFUTED): ptr("verdict", "not worse"),
        ("lower", Verdict.SUPPORTED): ptr("verdict", "lower"),
        ("lower", Verdict.REFUTED): ptr("verdict", "not lower"),
        ("higher", Verdict.SUPPORTED): ptr("verdict", "higher"),
        ("higher", Verdict.REFUTED): ptr("verdict", "not higher"),
    }
    return words.get((expect, verdict), "")


def verdict_word(verdict: Verdict, *, provisional: bool = False, not_tested: bool = False) -> str:
    """The verdict, and that it is provisional where blocks are still to come.

    ``not_tested``: there is none because nothing that the arms set had anything to act on.
    """
    words = {
        Verdict.SUPPORTED: ptr("verdict", "supported"),
        Verdict.REFUTED: ptr("verdict", "refuted"),
        Verdict.INCONCLUSIVE: ptr("verdict", "inconclusive"),
        Verdict.INVALID: ptr("verdict", "invalid"),
    }
    word = ptr("verdict", "not tested") if not_tested else words[verdict]
    return tr("{verdict}, provisional", verdict=word) if provisional else word


def hypothesis_word(asked: HypothesisFinding) -> str:
    return verdict_word(asked.verdict, provisional=asked.provisional, not_tested=asked.not_tested)


def severity_word(severity: Severity) -> str:
    words = {
        Severity.INFO: ptr("severity", "info"),
        Severity.WARNING: ptr("severity", "warning"),
        Severity.INVALID: ptr("severity", "invalid"),
    }
    return words[severity]


def level_word(level: Level) -> str:
    """Of a check."""
    words = {
        Level.OK: ptr("level", "ok"),
        Level.INFO: ptr("level", "info"),
        Level.WARNING: ptr("level", "warning"),
        Level.ALARM: ptr("level", "alarm"),
    }
    return words[level]


def state_word(state: str) -> str:
    """Of a run."""
    words = {
        RunState.PLANNED: ptr("state", "planned"),
        RunState.RUNNING: ptr("state", "running"),
        RunState.DONE: ptr("state", "done"),
        RunState.INVALID: ptr("state", "invalid"),
        RunState.INTERRUPTED: ptr("state", "interrupted"),
    }
    return words[RunState(state)]


def phase_word(phase: str) -> str:
    """Of a run; a phase that this pgtrial does not know keeps its name."""
    words: dict[str, str] = {
        PhaseName.RESTORE: ptr("phase", "restore"),
        PhaseName.START: ptr("phase", "start"),
        PhaseName.CACHE: ptr("phase", "cache"),
        PhaseName.WARMUP: ptr("phase", "warm-up"),
        PhaseName.CHECKPOINT: ptr("phase", "checkpoint"),
        PhaseName.MEASURE: ptr("phase", "measure"),
        PhaseName.CHECK: ptr("phase", "check"),
        PhaseName.STOP: ptr("phase", "stop"),
        PhaseName.COLLECT: ptr("phase", "collect"),
        GUARD: ptr("phase", "guard"),
        OTHER: ptr("phase", "other"),
    }
    return words.get(phase, phase)


def goal_word(goal: str) -> str:
    """What an arm is recommended for."""
    words = {
        FAST: ptr("goal", "fast"),
        STABLE: ptr("goal", "stable"),
        WEIGHTED: ptr("goal", "declared weights"),
    }
    return words.get(goal, goal)


def means_word(tier: str) -> str:
    """By what waits are told apart: an extension by its name, or sampling."""
    return ptr("means", "sampled sessions") if tier in {"", SAMPLED} else tier


def standing_word(standing: DiskStanding) -> str:
    """What the disk is."""
    words = {
        DiskStanding.AT_LIMIT: ptr("disk", "at a limit"),
        DiskStanding.SLOW: ptr("disk", "slow"),
        DiskStanding.NOT_LIMITING: ptr("disk", "not what limits"),
        DiskStanding.UNKNOWN: ptr("disk", "not known"),
    }
    return words[standing]


def file_limit_word(limit: FileLimit) -> str:
    """What the speed of a load on files ends at."""
    words = {
        FileLimit.MEMORY: ptr("limit", "memory"),
        FileLimit.BACKGROUND: ptr("limit", "background threshold"),
        FileLimit.THROTTLE: ptr("limit", "throttle"),
        FileLimit.DEVICE: ptr("limit", "device"),
        FileLimit.UNDETERMINED: ptr("limit", "undetermined"),
    }
    return words[limit]


def resource_word(resource: Resource) -> str:
    """What limits a load."""
    words = {
        Resource.CPU: ptr("resource", "CPU"),
        Resource.DISK_THROUGHPUT: ptr("resource", "disk throughput"),
        Resource.DISK_IOPS: ptr("resource", "disk IOPS"),
        Resource.DISK_LATENCY: ptr("resource", "disk latency"),
        Resource.WRITE_BACK: ptr("resource", "write-back throttling"),
        Resource.MEMORY: ptr("resource", "memory"),
        Resource.SWAP: ptr("resource", "swap"),
        Resource.LOCKS: ptr("resource", "locks"),
        Resource.LWLOCKS: ptr("resource", "LWLocks"),
        Resource.WAL_FLUSH: ptr("resource", "WAL flush"),
        Resource.CHECKPOINTS: ptr("resource", "checkpoints"),
        Resource.AUTOVACUUM: ptr("resource", "autovacuum"),
        Resource.TEMPORARY_FILES: ptr("resource", "temporary files"),
        Resource.CONNECTIONS: ptr("resource", "connections"),
        Resource.LOAD_GENERATOR: ptr("resource", "load generator"),
        Resource.CLIENT: ptr("resource", "client"),
        Resource.UNDETERMINED: ptr("resource", "undetermined"),
    }
    return words[resource]


def script_words() -> dict[str, object]:
    """Nothing for English, which the scripts have themselves.

    ``texts`` are theirs, by the English text. Tables sort by numbers as cells have them: with ``decimal``, with
    ``units`` (by name in the language, to what it is in base units), after ``range``, which begins an interval.
    ``times`` are names of units by the English ones, ``numbers`` is the locale of the charts' axes (d3-format).
    """
    if spoken() == ENGLISH:
        return {}
    return {
        "texts": {
            "Copy table": tr("Copy table"),
            "Copied": tr("Copied"),
            "Not copied: the browser does not allow it": tr("Not copied: the browser does not allow it"),
            "This chart could not be drawn: {error}": tr("This chart could not be drawn: {error}"),
        },
        "decimal": decimal_sign(),
        "units": _units(),
        "long": [ptr("unit", "min"), ptr("unit", "h")],
        "times": {"s": ptr("unit", "s"), "min": ptr("unit", "min"), "h": ptr("unit", "h")},
        "range": tr("{low} to {high}").partition("{low}")[0],
        "numbers": {"decimal": decimal_sign(), "thousands": "\u00a0", "grouping": [3], "currency": ["", ""]},
    }


def _units() -> dict[str, float]:
    return {
        ptr("unit", "µs"): 1e-6,
        ptr("unit", "ms"): 1e-3,
        ptr("unit", "s"): 1,
        ptr("unit", "min"): 60,
        ptr("unit", "h"): 3600,
        ptr("unit", "B"): 1,
        ptr("unit", "kB"): 1024,
        ptr("unit", "MB"): 1024**2,
        ptr("unit", "GB"): 1024**3,
        ptr("unit", "TB"): 1024**4,
    }
