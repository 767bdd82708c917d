"""The experiment that finds what limits an arm: the arm, and variants of it in which some times are longer."""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pgtrial.errors import SpecError
from pgtrial.experiment_file.disk_tables import LIMITS
from pgtrial.experiment_file.experiment import DEFAULT_BLOCKS, MEMORY, Experiment
from pgtrial.experiment_file.generate import file_text, typed_text
from pgtrial.knobs import is_list
from pgtrial.knobs.cgroup import Cgroup
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.knobs.slowdown import KEYS, SLOWDOWN
from pgtrial.knobs.workload import PAUSES, WORKLOAD, read_texts
from pgtrial.model.arm import Arm, Role
from pgtrial.nearest import hint_name
from pgtrial.units import parse_bytes, parse_duration, read_count

AS_IS, EVERYTHING = "as-is", "all-slower"  # names of the points at which nothing, and all, is slower
_SLICE = "500ms"
_LONGEST_NAME = 50
_PAGE = 8192  # bytes: less is rounded by the server and by the kernel
_KEPT = ("restore", "cache", "seed", "repeats", "disturbed")  # of [design]
_SAME = ("target", "dataset", "hooks", "waive")
# Columns beyond those of a full factorial design, as products of these: resolution IV, so that no product of two
# resources is mixed up with a resource.
# Source: Box, Hunter & Hunter, "Statistics for Experimenters" (2nd ed. 2005), chapter 6, table 6.22.
_GENERATORS = {3: ((0, 1, 2),), 4: ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3))}
MOST_RESOURCES = 8
_BY_FACTOR = (SLOWDOWN, WORKLOAD)  # knobs whose values are how many times as long a time is
_LARGEST_FACTOR = 10  # that these take
_SCRIPTS_PAUSES = f"{WORKLOAD}.{PAUSES}"
# Seconds of a run, and of the load before it.
_DURATION, _WARMUP, _WARMUP_OF_MEMORY = 2, 0.5, 10.0
# Of the longest pause, in a run and in the load before it: clients begin in step, so that a run has one more or less of
# all of their pauses.
_MANY_PAUSES, _SOME_PAUSES = 20, 3
_PAGES = "The size of memory is known where the arm declares it: shared_buffers, or memory in its table cgroup."
# Why what may well limit a load is not varied, by the names that somebody may give it.
_NEVER = {
    "memory": _PAGES,
    "shared_buffers": _PAGES,
    "network": "The load reaches the server by a socket, without a network between them.",
    "pauses": "The arm's load has no \\sleep in scripts of its own, by which clients would pause.",
    "think": "Pauses of scripts (\\sleep) are called pauses.",
    "locks": "A wait for a lock is no time of its own: it is as long as the work of its holder, which is varied.",
    "full_page_writes": "There is a checkpoint before each run, after which so short a run has mostly whole pages. "
    "Compare arms with full_page_writes = on and off, in runs longer than checkpoint_timeout.",
    "autovacuum": "It looks once in a minute, and runs take seconds. Compare arms with autovacuum = on and off, in "
    "runs of many minutes.",
}


def two_level_design(resources: int) -> tuple[tuple[bool, ...], ...]:
    """Points, each with whether a resource is slowed: at the first none of them is, at the last all are.

    A full factorial design of up to 3 resources, its half of 8 points for 4, and a fraction of 16 for up to 8.
    ValueError beyond that.
    """
    if not 1 <= resources <= MOST_RESOURCES:
        raise ValueError(f"expected 1 to {MOST_RESOURCES} resources, got {resources}")
    basic = min(resources, 3) if resources <= 4 else 4
    generators = _GENERATORS.get(basic, ())[: resources - basic]
    return tuple(
        # The product of three signs: slowed where an odd number of them are.
        (*row, *(sum(row[column] for column in columns) % 2 == 1 for columns in generators))
        for row in itertools.product((False, True), repeat=basic)
    )


def find_resources(arm: Arm) -> tuple[str, ...]:
    """What can be varied of an arm, as "knob.key": its times, and the limits that it declares of its disk."""
    declared = arm.knobs.get(Cgroup.name, {})
    return (
        *(f"{SLOWDOWN}.{key}" for key in KEYS),
        *(f"{Cgroup.name}.{key}" for key in LIMITS if key in declared),
    )


def find_memory(arm: Arm) -> tuple[str, ...]:
    """What of an arm's memory can be made smaller: what it declares, as its size is known nowhere else."""
    tables = {**arm.knobs, POSTGRESQL: arm.settings}
    names = [name.partition(".") for name in MEMORY]
    return tuple(f"{knob}.{key}" for knob, _, key in names if key in tables.get(knob, {}))


def limits_experiment(
    experiment: Experiment,
    arms: Sequence[Arm],
    *,
    arm: str | None = None,
    resources: Sequence[str] = (),
    step: float = 1.5,
    method: str = "auto",
    blocks: int = DEFAULT_BLOCKS,
    budget: float | None = None,
    duration: str | float | None = None,
    warmup: str | float | None = None,
    sleeps: Mapping[str, float] = MappingProxyType({}),
) -> str:
    """TOML whose arms are the points of a design in which the resources of ``arm``, default the first, are slowed by
    ``step``; the load is that of ``experiment``, which has no errors. ``resources``, default all times, may leave out
    the knob of a name. Times in seconds; with a ``budget`` the number of blocks follows from it. A
    ``duration`` or ``warmup`` of None is as long as what is varied needs. ``sleeps`` is by arm, of those
    whose scripts pause, for how long they do at most, infinity where that is not known.

    SpecError where the load or the target does not allow it, and for names that are not there.
    """
    _require_closed(experiment)
    chosen = _find_arm(arms, arm)
    longest = sleeps.get(chosen.name, 0.0)
    pauses = (_SCRIPTS_PAUSES,) if chosen.name in sleeps else ()
    names = _choose(resources, find_resources(chosen), (*find_memory(chosen), *pauses))
    if not 1 < step <= _LARGEST_FACTOR:
        raise SpecError(f"the step is {step:g}, not a factor above 1 and up to {_LARGEST_FACTOR}")
    _require_room(chosen, names, step)
    times = _times(names, duration, warmup, longest * step)
    data = experiment.model_dump(mode="json", by_alias=True, exclude_unset=True)
    hypothesis = {key: value for key, value in data.get("hypothesis", {}).items() if key in ("margin", "confidence")}
    design = {key: value for key, value in data.get("design", {}).items() if key in _KEPT}
    if experiment.dataset.kind == "pgbench" and experiment.workload.mix is not None:
        # pgbench's own loads leave their data alike; to put back so many copies takes longer than to measure.
        design.setdefault("restore", "never")
    points = two_level_design(len(names))
    keys = [name.partition(".")[2] for name in names]
    labels = [_label([key for key, slowed in zip(keys, row, strict=True) if slowed], len(names)) for row in points]
    return file_text(
        f"Written by pgtrial: what limits {chosen.name}.",
        {
            "experiment": {"name": f"limits-{_portable(chosen.name)}-{experiment.experiment.name}"[:_LONGEST_NAME]},
            "hypothesis": {
                **hypothesis,
                "claim": f"{chosen.name} is slower where all of its times are {step:g} times as long",
                "arm": EVERYTHING,
                "expect": "worse",
            },
            **{key: data[key] for key in _SAME if key in data},
            "workload": data["workload"] | times,
            "limits": {"of": chosen.name, "resources": list(names)},
            "arms": {label: _tables(chosen, names, row, step) for label, row in zip(labels, points, strict=True)},
            "design": {
                **design,
                "method": method,
                **({} if method == "blocks" else {"slice": _SLICE}),
                **({"blocks": blocks} if budget is None else {"budget": budget}),
            },
        },
    )


def limits_to_prove(
    experiment: Experiment, arms: Sequence[Arm], *, sleeps: Mapping[str, float] = MappingProxyType({})
) -> dict[str, str]:
    """By the name of an arm, TOML of the experiment that proves what limits it; {} where the file does not ask for it.

    SpecError and ``sleeps`` as ``limits_experiment``.
    """
    asked = experiment.limits
    if asked is None or not asked.prove:
        return {}
    claimed = experiment.hypothesis.arm or arms[1 if arms[1:] else 0].name
    # A second copy of the control is limited by what limits that.
    names = [arm.name for arm in arms if arm.role is not Role.PLACEBO and arm.name in (arms[0].name, claimed)]
    chosen = names if asked.arm is None else [asked.arm]
    budget = None if asked.budget is None else asked.budget / len(chosen)
    return {
        name: limits_experiment(experiment, arms, arm=name, resources=asked.resources, budget=budget, sleeps=sleeps)
        for name in chosen
    }


def _require_closed(experiment: Experiment) -> None:
    if experiment.target.kind != "throwaway":
        raise SpecError(
            "what limits it is found on a server that pgtrial starts: times of one that is there cannot be made longer",
            hint='Write kind = "throwaway" in [target], with a copy of the data ("pgtrial copy --dump").',
        )
    if experiment.workload.rate is not None:
        raise SpecError(
            "what limits throughput cannot be asked of a load whose transactions arrive at a rate",
            hint="Remove rate from [workload], so that each client starts the next transaction when one has ended.",
        )


def _find_arm(arms: Sequence[Arm], name: str | None) -> Arm:
    found = next((arm for arm in arms if name in (None, arm.name)), None)
    if found is None:
        assert name is not None  # there is a first arm
        raise SpecError(f'arm "{name}" does not exist', hint=hint_name(name, [a.name for a in arms], what="Arms are"))
    return found


def _choose(wanted: Sequence[str], times: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    there = (*times, *others)
    short = {name.partition(".")[2]: name for name in there}
    for name in wanted:
        if name not in short and name not in there:
            raise SpecError(
                f'resource "{name}" cannot be varied',
                detail=_NEVER.get(name.partition(".")[2] or name, ""),
                hint=hint_name(name, short, what="Resources are"),
            )
    names = tuple(dict.fromkeys(short.get(name, name) for name in wanted)) or tuple(times)
    if len(names) > MOST_RESOURCES:
        raise SpecError(f"{len(names)} resources are too many, {MOST_RESOURCES} are possible at once")
    return names


def _require_room(arm: Arm, names: Sequence[str], step: float) -> None:
    """Of an arm whose times are longer themselves."""
    for knob, _, key in (name.partition(".") for name in names):
        own = float(arm.knobs.get(knob, {}).get(key, "1")) if knob in _BY_FACTOR else 0.0
        if own * step > _LARGEST_FACTOR:
            raise SpecError(
                f"{key} of {arm.name} would be {own * step:g} times as long, and {_LARGEST_FACTOR} times is the most",
                hint=f"It is {own:g} times as long already: take a step of {_LARGEST_FACTOR / own:g} at most, or leave "
                "it out.",
            )


def _times(
    names: Sequence[str], duration: str | float | None, warmup: str | float | None, pause: float
) -> dict[str, str | float]:
    """Times of the runs: memory has to fill, and there have to be many of the pauses that are varied."""
    pause = pause if _SCRIPTS_PAUSES in names else 0.0
    least_warmup = _WARMUP if set(names).isdisjoint(MEMORY) else _WARMUP_OF_MEMORY
    if math.isinf(pause):
        if duration is None or warmup is None:
            raise SpecError(
                "how long the scripts pause is known only while they run",
                hint=f"Give --duration and --warmup of pgtrial limits: {_MANY_PAUSES} and {_SOME_PAUSES} times as long "
                "as the longest pause with the step. Or give the arm the variable of the \\sleep, in its variables.",
            )
        return {"duration": duration, "warmup": warmup}
    return {
        "duration": _time(duration, _DURATION, pause, _MANY_PAUSES, "duration"),
        "warmup": _time(warmup, least_warmup, pause, _SOME_PAUSES, "warmup"),
    }


def _time(given: str | float | None, least: float, pause: float, count: int, option: str) -> str | float:
    """What is given, or else long enough; SpecError where it is given, and too short for so many pauses."""
    needed = round(count * pause, 6)
    if given is None:
        return least if needed <= least else math.ceil(needed)
    seconds = _seconds(given)
    if seconds is not None and seconds < needed:
        raise SpecError(
            f"a {option} of {seconds:g} s has too few pauses of up to {pause:g} s",
            hint="Clients begin in step, so that a few pauses say little: give "
            f"--{option} {math.ceil(needed)}s, or leave it out.",
        )
    return given


def _seconds(time: str | float) -> float | None:
    """None of a text that is no time, which is said where the file is checked."""
    try:
        return parse_duration(time) if isinstance(time, str) else time
    except ValueError:
        return None


def _label(slowed: Sequence[str], count: int) -> str:
    return {0: AS_IS, count: EVERYTHING}.get(len(slowed), "+".join(slowed))


def _tables(arm: Arm, names: Sequence[str], row: Sequence[bool], step: float) -> dict[str, Any]:
    """The arm with what is slowed at a point; its disk class has become the tables that it stands for."""
    texts: dict[str, dict[str, str]] = {knob: dict(table) for knob, table in arm.knobs.items()}
    texts[POSTGRESQL] = dict(arm.settings)
    for name, is_slowed in zip(names, row, strict=True):
        knob, _, key = name.partition(".")
        table = texts.setdefault(knob, {})
        if knob in _BY_FACTOR:
            own = float(table.get(key, "1"))  # of an arm that is slowed down itself
            table[key] = f"{own * step if is_slowed else own:g}"
        elif is_slowed:
            table[key] = _lowered(table[key], step, unit=_PAGE if name in MEMORY else 1)
    return {
        knob: read_texts(table) if knob == WORKLOAD else {key: _value(knob, key, text) for key, text in table.items()}
        for knob, table in texts.items()
        if table
    }


def _value(knob: str, key: str, text: str) -> Any:
    return text.split(", ") if is_list(knob, key) else typed_text(knob, key, text)


def _lowered(text: str, step: float, *, unit: int) -> str:
    """A limit per second, or of bytes per second, that a request waits for ``step`` times as long; or so much less
    memory. Bytes are whole ``unit``s.
    """
    if (limit := read_count(text)) is not None:
        return str(max(1, round(limit / step)))
    return f"{max(1, round(parse_bytes(text) / step / unit)) * unit}B"


def log_time(knob: str, text: str) -> float:
    """Logarithm of the time that a value stands for, up to a constant; of memory of its reciprocal, as of a limit.

    ValueError for what is none.
    """
    if knob in _BY_FACTOR:
        return math.log(float(text))
    return -math.log(float(text) if text.isdecimal() else parse_bytes(text))


def _portable(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", text)
