"""What speaks against a method: a reason that refuses it, a doubt, or a note."""

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Sequence

from pgtrial.design.effect_timing import Difference
from pgtrial.design.method_case import Case, Method, Objection, Weight
from pgtrial.design.slices import (
    GUARD,
    LEAST_SLICE_BUILDING_UP,
    LEAST_SWITCH_BUILDING_UP,
    WASHOUT,
    builds_up,
    has_whole_cores,
    settle_time,
    shortest_slice,
    slice_length,
    slices_per_round,
    split_cpus,
    switch_length,
)
from pgtrial.experiment_file.command_checks import replays
from pgtrial.experiment_file.result_formats import FORMATS
from pgtrial.experiment_file.workload_table import COMMAND
from pgtrial.knobs import KNOBS
from pgtrial.knobs.declaration import Among, EffectTiming, Rule, Shared
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.knobs.workload import CONNECT, EACH_TRANSACTION, WORKLOAD
from pgtrial.model.arm import Arm
from pgtrial.model.metrics import LOADS
from pgtrial.model.observable import find_observable
from pgtrial.units import format_bytes, format_duration, format_share, parse_duration

_MOST_MEMORY_SHARE = 0.7  # of what is available, for all servers together
_CHECKPOINT_TIMEOUT = 300.0  # s, the server's default
_LONGEST_ROUND = 1.5  # of the duration
_OFF = re.compile(r"0*(\.0*)?\s*[a-z]*")
_BOTH: tuple[Method, ...] = ("interleaved", "duet")
_ONE: tuple[Method, ...] = ("switchback",)  # whose arms have one server
_ALL: tuple[Method, ...] = (*_BOTH, *_ONE)
_TURNS: tuple[Method, ...] = ("interleaved", "switchback")
_LONGEST_PAUSE = 0.1  # of a slice, up to which a client's own pause may be short beside any margin
# Their clocks go on while a server stands still, and cancel what it was about to do.
_TIMEOUTS = (
    "statement_timeout",
    "transaction_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
)


def find_objections(case: Case) -> tuple[Objection, ...]:
    """All of them, in the order of weight that the checks give them; blocks are never objected to."""
    if case.experiment.workload.kind == COMMAND:
        refused = tuple(_check_command(case))
        # What speaks against turns anyway is looked for only where they are possible at all.
        if any(one.weight is Weight.REFUSAL and "interleaved" in one.methods for one in refused):
            return refused
        return refused + _check_throwaway(case)
    if case.experiment.target.kind == "server":
        return (*_check_of_block(case), *_check_sessions(case))
    return _check_throwaway(case)


def _check_of_block(case: Case) -> tuple[Objection, ...]:
    return (*_check_metric(case), *_check_acceptance(case), *_check_stop(case))


def _check_stop(case: Case) -> Iterator[Objection]:
    if case.experiment.design.stop == "each-arm":
        text = (
            "an arm that is decided is not run any more, and arms that share the time of a block are there to its end"
        )
        yield Objection(methods=_ALL, weight=Weight.REFUSAL, text=text)


def _check_throwaway(case: Case) -> tuple[Objection, ...]:
    found = (*_check_place(case), *_check_of_block(case))
    # Where there can be no twins there is nothing more to ask.
    return found or tuple(objection for check in _CHECKS for objection in check(case))


def _check_command(case: Case) -> Iterator[Objection]:
    """Turns need a program that counts all or none of the time in which it stands still, and tells of each request."""
    text = "what a command tells of its requests is put together by turns only"
    yield Objection(methods=("duet", "switchback"), weight=Weight.REFUSAL, text=text)
    if case.experiment.target.kind == "server":
        text = "on an existing server only the clients of pgbench take turns"
        yield Objection(methods=("interleaved",), weight=Weight.REFUSAL, text=text)
    elif not FORMATS[case.experiment.workload.results].tells_each:
        text = "the results of the command do not say when each request ended, and so in whose turn"
        yield Objection(methods=("interleaved",), weight=Weight.REFUSAL, text=text)
    elif replays(case.experiment):
        text = "a replay goes by the times of its log, and catches up what was due while it stood still"
        yield Objection(methods=("interleaved",), weight=Weight.REFUSAL, text=text)
    else:
        text = (
            "a command may count some of the time in which it stands still as latency: before the first run it is "
            "stopped (SIGSTOP) on the running server, and unless it counts all of that or none, there are blocks"
        )
        yield Objection(methods=("interleaved",), weight=Weight.NOTE, text=text)


def _check_metric(case: Case) -> Iterator[Objection]:
    """What an arm does later than in its own turns, their slices tell of the load's own metrics alone. In a duet all
    arms are at work all the time, and what the machine did then, it did for all of them.
    """
    told = {metric.name for metric in LOADS[case.experiment.workload.kind].every}
    for claim in case.experiment.hypothesis.claims:
        if claim.metric not in told:
            text = (
                f"{claim.metric}: only of throughput and latencies do slices tell what an arm leaves for the turns of "
                "others"
            )
            yield Objection(methods=_TURNS, weight=Weight.REFUSAL, text=text)
        known = find_observable(claim.metric)
        if known is not None and not known.is_of_server:
            text = f"{claim.metric} is of the machine, and nothing tells which arm of a block it was for"
            yield Objection(methods=("duet",), weight=Weight.REFUSAL, text=text)


def _check_acceptance(case: Case) -> Iterator[Objection]:
    """Arms that share a block slow each other down, or leave each other what is cached: no arm is as it is alone."""
    if case.experiment.acceptance:
        text = "[[acceptance]] asks what an arm does by itself, and arms that share a block are not"
        yield Objection(methods=_ALL, weight=Weight.REFUSAL, text=text)


def _check_place(case: Case) -> Iterator[Objection]:
    target = case.experiment.target
    if target.kind != "throwaway":
        yield Objection(methods=_ALL, weight=Weight.REFUSAL, text="a load on files has no servers")
    elif target.host is not None or (case.facts is not None and not case.facts.local):
        text = "the server is on another machine; arms only take turns on this one"
        yield Objection(methods=_ALL, weight=Weight.REFUSAL, text=text)
    if case.experiment.load is not None:
        text = "load generators on other machines do not take turns"
        yield Objection(methods=_ALL, weight=Weight.REFUSAL, text=text)


def _check_sessions(case: Case) -> Iterator[Objection]:
    """Arms of one existing server, which has no twin: their sessions can share its time, and nothing else can."""
    target = case.experiment.target
    yield from _check_server_switch(case)
    for one in case.differences:
        name = one.label.lower()
        known = None if case.facts is None else case.facts.session_settings
        if one.knob != POSTGRESQL or (known is not None and name not in known and "." not in name):
            text = f"an existing server has no twin, and {one.label} is not a setting that each session can have"
            yield Objection(methods=_BOTH, weight=Weight.REFUSAL, text=text)
        elif one.rule.timing is EffectTiming.BUILDS_UP or one.rule.shares:
            text = f"{one.label}: {one.rule.reason}; the sessions of all arms share that on one server"
            yield Objection(methods=_BOTH, weight=Weight.REFUSAL, text=text)
    if target.settings != "session" and case.differences:
        whose = "the whole server" if target.settings == "server" else "the role"
        text = f'with settings = "{target.settings}" they change for {whose}'
        yield Objection(methods=_BOTH, weight=Weight.REFUSAL, text=text)
    if case.writes and (target.database is None or target.writes):
        text = "a transaction of an arm that waits for its turn keeps its locks, for which the other arms would wait"
        yield Objection(methods=("interleaved",), weight=Weight.REFUSAL, text=text)
        text = "the transactions of all arms write to the same rows, and would wait for each other's locks"
        yield Objection(methods=("duet",), weight=Weight.REFUSAL, text=text)
    yield from _check_cache(case)
    yield from _check_rate(case)
    yield from _check_slices(case)
    yield from _check_cpus(case)
    if any(arm.knobs.get(WORKLOAD, {}).get(CONNECT) == EACH_TRANSACTION for arm in case.arms):
        text = "the sessions of an arm are given its CPUs when the load begins, and each transaction has a new one"
        yield Objection(methods=("duet",), weight=Weight.REFUSAL, text=text)
    text = "parallel workers and all else that serves the whole server stay on all CPUs"
    yield Objection(methods=("duet",), weight=Weight.DOUBT, text=text)
    text = "the arms share one server and its caches: what one has read is there for the others, so effects on what is "
    yield Objection(methods=_BOTH, weight=Weight.NOTE, text=f"{text}cached look smaller")
    text = "a statement at work when its arm's turn ends goes on in the next turn, whose first half does not count"
    yield Objection(methods=("interleaved",), weight=Weight.NOTE, text=text)


def _check_server_switch(case: Case) -> Iterator[Objection]:
    """Everybody who uses an existing server feels how it is switched, so only a file that says so twice has it done."""
    experiment = case.experiment
    if experiment.guardrails is None:
        text = "an existing server is switched for all who use it, and the file has no [guardrails] to end that"
        yield Objection(methods=_ONE, weight=Weight.REFUSAL, text=text)
        return
    if experiment.target.settings != "server":
        text = 'sessions keep the settings that they begin with; settings = "server" in [target] changes the server'
        yield Objection(methods=_ONE, weight=Weight.REFUSAL, text=text)
    others = [one.label for one in case.differences if one.knob != POSTGRESQL]
    if others:
        text = f"{', '.join(others)}: an existing server is switched between settings of PostgreSQL alone"
        yield Objection(methods=_ONE, weight=Weight.REFUSAL, text=text)
    yield from _check_switches(case)
    text = "all who use the server feel each switch"
    yield Objection(methods=_ONE, weight=Weight.DOUBT, text=text)


def _check_cache(case: Case) -> Iterator[Objection]:
    if case.experiment.design.cache == "cold":
        text = 'with cache = "cold" each run has to find an empty page cache, which twins share'
        yield Objection(methods=_BOTH, weight=Weight.REFUSAL, text=text)
        text = 'with cache = "cold" each run has to find an empty page cache, and all arms have one server'
        yield Objection(methods=_ONE, weight=Weight.REFUSAL, text=text)


def _check_rate(case: Case) -> Iterator[Objection]:
    if case.experiment.workload.rate is not None:
        text = "transactions keep arriving at the rate while a server is frozen"
        yield Objection(methods=("interleaved",), weight=Weight.REFUSAL, text=text)
    for name in _TIMEOUTS:
        if any(_is_on(arm.settings.get(name)) for arm in case.arms):
            text = f"{name} keeps running by the clock while a server is frozen, and may cancel waiting statements"
            yield Objection(methods=("interleaved",), weight=Weight.DOUBT, text=text)


def _check_pauses(case: Case) -> Iterator[Objection]:
    """A pause is over by the clock: after a stop all clients would begin at once, and each had a shorter one. On
    average half of a pause is won by each stop, and half of a slice counts.
    """
    longest = min(_LONGEST_PAUSE, case.experiment.hypothesis.margin / 2) * slice_length(case.experiment, case.arms)
    for name, seconds in case.facts.pauses if case.facts is not None else ():
        if seconds > longest:
            text = f'the clients of "{name}" pause (\\sleep, pg_sleep), and their pauses go on while they stand still'
            yield Objection(methods=("interleaved",), weight=Weight.REFUSAL, text=text)


def _check_load(case: Case) -> Iterator[Objection]:
    if not case.writes:
        return
    text = "dirty pages that one arm leaves may be written back in a slice of another: effects on them look smaller"
    yield Objection(methods=("interleaved",), weight=Weight.NOTE, text=text)
    if any(_waits_for_disk(arm) for arm in case.arms):
        text = "commits of all arms wait for the same disk at the same time, and so for each other"
        yield Objection(methods=("duet",), weight=Weight.DOUBT, text=text)
    else:
        text = "the arms write to the same disk at the same time"
        yield Objection(methods=("duet",), weight=Weight.NOTE, text=text)


def _check_memory(case: Case) -> Iterator[Objection]:
    available = case.memory
    if available is None:
        return
    servers, count = case.server_memory, len(case.arms)
    if servers > _MOST_MEMORY_SHARE * available:
        text = (
            f"{count} servers at once need about {format_bytes(servers)} of memory, more than "
            f"{format_share(_MOST_MEMORY_SHARE)} of the {format_bytes(available)} available"
        )
        yield Objection(methods=_BOTH, weight=Weight.REFUSAL, text=text)
    if sum(min(limit, case.data) for limit in case.limits) <= available:
        return
    if not any(math.isinf(limit) for limit in case.limits):
        text = (
            f"the control groups of {count} arms may have {format_bytes(sum(case.limits))} together, more than the "
            f"{format_bytes(available)} available: the kernel would take pages of arms that stand still"
        )
        yield Objection(methods=_BOTH, weight=Weight.REFUSAL, text=text)
        return
    size = (
        f"{count} copies of the data, {format_bytes(case.data)} each, do not fit into the page cache, which they share"
    )
    if case.data <= available:
        text = f"{size}, as one alone would"
        yield Objection(methods=_BOTH, weight=Weight.REFUSAL, text=text)
    else:
        text = f"{size}: each arm has only its part of it"
        yield Objection(methods=_BOTH, weight=Weight.DOUBT, text=text)


def _check_isolation(case: Case) -> Iterator[Objection]:
    if case.isolated:
        own = " and the ".join(shared for shared in Shared if shared in case.isolated)
        text = f"each arm has the {own} of its control group for itself, also while it is frozen"
        yield Objection(methods=("interleaved",), weight=Weight.NOTE, text=text)


def _check_timing(case: Case) -> Iterator[Objection]:
    for method in _BOTH:
        for rule in dict.fromkeys(one.rule for one in case.differences):
            yield from _check_rule(case, rule, method)


def _check_rule(case: Case, rule: Rule, method: Method) -> Iterator[Objection]:
    own = [one for one in case.differences if one.rule == rule]
    names, among = ", ".join(one.label for one in own), own[0].among_twins
    verb = "builds up" if len(own) == 1 else "build up"
    shares = [shared for shared in rule.shares if _matters(case, shared, method)]
    common = f"; twins share the {' and the '.join(shares)}" if shares else ""
    if method == "duet" and case.has_small_groups and Shared.PAGE_CACHE in rule.shares:
        text = f"{names}: {rule.reason}, and the disk, from which all arms read what their groups cannot keep"
        yield Objection(methods=(method,), weight=Weight.REFUSAL, text=text)
    is_own = among is Among.OWN or (rule.in_group and Shared.MEMORY in case.isolated)
    if rule.timing is EffectTiming.BUILDS_UP and (shares or not is_own):
        text = f"the effect of {names} {verb}: {rule.reason}{common}"
        yield Objection(methods=(method,), weight=Weight.REFUSAL, text=text)
        return
    if Shared.PAGE_CACHE in shares:
        yield Objection(methods=(method,), weight=Weight.REFUSAL, text=f"{names}: {rule.reason}{common}")
    elif shares:
        text = f"{names}: {rule.reason}{common}, so the effect may look smaller"
        yield Objection(methods=(method,), weight=Weight.DOUBT, text=text)
    if rule.by_clock and method == "interleaved":
        text = f"{names}: {rule.reason}; the clock keeps running while a server is frozen"
        yield Objection(methods=(method,), weight=Weight.REFUSAL, text=text)
    elif rule.timing is EffectTiming.BUILDS_UP:
        text = f"the effect of {names} {verb}, and has only the time of a slice for it: {rule.reason}"
        yield Objection(methods=(method,), weight=Weight.DOUBT, text=text)
    if among is Among.SWITCHED and method == "duet":
        text = f"{names} cannot have two values at once on one machine"
        yield Objection(methods=(method,), weight=Weight.REFUSAL, text=text)
    elif among is Among.SWITCHED:
        text = f"{names}: switched before each slice, of which the first {format_duration(GUARD + rule.seconds)}"
        yield Objection(methods=(method,), weight=Weight.NOTE, text=f"{text} do not count")


def _check_switches(case: Case) -> Iterator[Objection]:
    """One server can be switched if all that arms differ in holds at once for what it does next."""

    def refuse(found: Sequence[Difference], why: str) -> Iterator[Objection]:
        if found:
            text = f"{', '.join(one.label for one in found)}: {why}"
            yield Objection(methods=_ONE, weight=Weight.REFUSAL, text=text)

    yield from refuse([one for one in case.differences if not one.can_be_switched], "not switched while a server runs")
    able = [one for one in case.differences if one.can_be_switched]
    yield from refuse([one for one in able if one.rule.by_clock], "timed by the clock, over more than a slice")
    planned = [one for one in able if one.knob == POSTGRESQL]
    if case.experiment.workload.protocol == "prepared":
        yield from refuse(planned, "a session keeps the plan of a prepared statement, whatever is set after it")
    length = switch_length(case.experiment, case.arms)
    yield from _check_length(case, length, methods=_ONE)
    if length < LEAST_SWITCH_BUILDING_UP and builds_up(able):
        text = (
            f"slices of {format_duration(length)} are too short for effects that build up, which need "
            f"{format_duration(LEAST_SWITCH_BUILDING_UP)}: half of a slice is for what the arm before has left"
        )
        yield Objection(methods=_ONE, weight=Weight.REFUSAL, text=text)
    slow = [one for one in able if Shared.MEMORY in one.rule.shares]
    if slow:
        text = f"{', '.join(one.label for one in slow)}: {slow[0].rule.reason}, longer than a slice"
        yield Objection(methods=_ONE, weight=Weight.DOUBT, text=text)
    elif builds_up(able):
        text = "what an effect builds up after the washout of a slice is not seen: it may look smaller"
        yield Objection(methods=_ONE, weight=Weight.NOTE, text=text)


def _check_knobs(case: Case) -> Iterator[Objection]:
    tables = [arm.knobs for arm in case.arms]
    differing = {one.knob for one in case.differences}
    for name, knob in KNOBS.items():
        if knob.among_twins is Among.STANDING and name in differing:
            continue  # refused for that
        for refusal in knob.refusals:
            if any(refusal.applies_to(table.get(name, {})) for table in tables):
                methods = tuple(method for method in _ALL if method in refusal.methods)
                yield Objection(methods=methods, weight=Weight.REFUSAL, text=refusal.reason)


def _check_slices(case: Case) -> Iterator[Objection]:
    experiment, arms = case.experiment, case.arms
    length = slice_length(experiment, arms)
    shown = format_duration(length)
    yield from _check_length(case, length, methods=("interleaved",))
    if length < LEAST_SLICE_BUILDING_UP and builds_up(case.differences):
        text = (
            f"slices of {shown} are too short for effects that build up, which need "
            f"{format_duration(LEAST_SLICE_BUILDING_UP)}: the kernel writes back dirty pages every 5 s"
        )
        yield Objection(methods=("interleaved",), weight=Weight.REFUSAL, text=text)
    duration = experiment.workload.duration
    timeout = min(_checkpoint_timeout(arm) for arm in arms)
    span = len(arms) * duration * len(case.levels) / (1 - WASHOUT)
    if case.writes and span > timeout:
        text = (
            f"a block takes {format_duration(span)}, in which checkpoints begin by the clock (checkpoint_timeout "
            f"{format_duration(timeout)}) and hurry after each standstill"
        )
        yield Objection(methods=("interleaved",), weight=Weight.NOTE, text=text)


def _check_length(case: Case, length: float, *, methods: tuple[Method, ...]) -> Iterator[Objection]:
    """Whether slices are long enough for what settles, and short enough for a balanced sequence of them."""
    arms, shown = case.arms, format_duration(length)
    if length < shortest_slice(arms):
        text = (
            f"slices of {shown} are too short where an arm takes {format_duration(settle_time(arms))} to settle, which "
            f"needs {format_duration(shortest_slice(arms))}"
        )
        yield Objection(methods=methods, weight=Weight.REFUSAL, text=text)
    count, duration = slices_per_round(len(arms)), case.experiment.workload.duration
    if count * (1 - WASHOUT) * length > _LONGEST_ROUND * duration:
        text = (
            f"a balanced sequence of {len(arms)} arms has {count} slices of each, and {count} slices of {shown} do not "
            f"fit into a duration of {format_duration(duration)}"
        )
        yield Objection(methods=methods, weight=Weight.REFUSAL, text=text)


def _check_cpus(case: Case) -> Iterator[Objection]:
    if case.facts is None:
        return
    if not case.facts.cores:
        text = "whether the machine has the CPUs and the memory for all arms at once is not known before"
        yield Objection(methods=_BOTH, weight=Weight.DOUBT, text=text)
        return
    cores, count = case.facts.cores, len(case.arms)
    total = sum(len(core) for core in cores)
    sets = split_cpus(cores, count)
    if sets is None:
        text = f"{count} arms at once need at least {count} CPUs, and there {'is 1' if total == 1 else f'are {total}'}"
        yield Objection(methods=("duet",), weight=Weight.REFUSAL, text=text)
        return
    if not has_whole_cores(cores, count):
        text = f"there are fewer than {count} physical cores, so arms share the parts of one"
        yield Objection(methods=("duet",), weight=Weight.DOUBT, text=text)
    text = (
        f"each arm has {len(sets[0])} of {total} CPUs, and all of them one memory and one disk: loads that are bound "
        "by the disk or by memory bandwidth disturb each other"
    )
    yield Objection(methods=("duet",), weight=Weight.NOTE, text=text)
    parallel = [one.label for one in case.differences if one.label.startswith(("max_parallel_", "max_worker_", "io_"))]
    if parallel:
        text = f"{', '.join(parallel)}: how much more workers bring depends on the CPUs, of which each arm has a part"
        yield Objection(methods=("duet",), weight=Weight.DOUBT, text=text)


_CHECKS: tuple[Callable[[Case], Iterator[Objection]], ...] = (
    _check_cache,
    _check_rate,
    _check_pauses,
    _check_load,
    _check_isolation,
    _check_timing,
    _check_switches,
    _check_knobs,
    _check_memory,
    _check_cpus,
    _check_slices,
)


def _matters(case: Case, shared: Shared, method: Method) -> bool:
    """Whether an effect can leak through it in this experiment."""
    if shared in case.isolated:
        return False
    if shared is Shared.PAGE_CACHE:  # where everything fits, nobody takes it from the other
        return case.memory is not None and case.needed > case.memory
    if shared is Shared.DEVICE_QUEUE:  # the reads of a server that stands still have ended after some milliseconds
        return case.writes or method == "duet"
    return shared is not Shared.DIRTY_PAGES or case.writes


def _is_on(value: str | None) -> bool:
    return value is not None and _OFF.fullmatch(value.strip()) is None


def _waits_for_disk(arm: Arm) -> bool:
    settings = arm.settings
    return not any(settings.get(name) in ("off", "false", "no", "0") for name in ("synchronous_commit", "fsync"))


def _checkpoint_timeout(arm: Arm) -> float:
    text = arm.settings.get("checkpoint_timeout", "")
    with contextlib.suppress(ValueError):
        return float(text) if re.fullmatch(r"[0-9]+", text) else parse_duration(text)
    return _CHECKPOINT_TIMEOUT
