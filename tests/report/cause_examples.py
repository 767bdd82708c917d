"""Example causes for the report's tests: an arm without commit waits against a control that waits for the WAL."""

import math
import random
from collections.abc import Mapping, Sequence

from pgtrial.findings.causes import (
    ArmScore,
    Association,
    Causes,
    Check,
    CriterionValue,
    Crossing,
    CurveModel,
    LegacyMetrics,
    Level,
    Limit,
    LimitEvidence,
    LoadKind,
    Recommendation,
    Resource,
    Scorecard,
    Suspect,
)
from pgtrial.findings.message import Message, message, verbatim
from pgtrial.findings.over_time import (
    Course,
    CourseLine,
    Dip,
    DipSign,
    DipWait,
    LogSummary,
    Mark,
    Panel,
    PanelLine,
    Period,
    Stability,
)
from pgtrial.findings.record import Estimate
from pgtrial.findings.session_time import (
    BackgroundWait,
    BudgetDifference,
    BudgetPart,
    LatencyBudget,
    Pareto,
    ParetoItem,
    WaitType,
)

# Milliseconds per transaction of the lower load level; they add up to the latency.
PARTS: Mapping[str, Mapping[tuple[str, str], float]] = {
    "on": {
        ("IO", "WalSync"): 3.1,
        ("LWLock", "WALWrite"): 0.9,
        ("CPU", ""): 0.3,
        ("CPU queue", ""): 0.04,
        ("idle in transaction", ""): 0.05,
        ("outside the server", ""): 0.06,
    },
    "off": {
        ("CPU", ""): 0.62,
        ("CPU queue", ""): 0.5,
        ("IO", "DataFileRead"): 0.2,
        ("Lock", "tuple"): 0.11,
        ("idle in transaction", ""): 0.09,
        ("outside the server", ""): 0.14,
    },
}
EVENTS = {
    "on": (("IO WalSync", 0.68), ("LWLock WALWrite", 0.2), ("CPU", 0.08), ("IO DataFileRead", 0.04)),
    "off": (("CPU", 0.74), ("IO DataFileRead", 0.15), ("Lock tuple", 0.08), ("LWLock BufferContent", 0.03)),
}
STATEMENTS = (
    ("UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2", 0.55, "CPU 60 %, IO DataFileRead 40 %"),
    ("COMMIT", 0.35, "IO WalSync 95 %"),
    ("SELECT abalance FROM pgbench_accounts WHERE aid = $1", 0.1, ""),
)


def make_causes(arm_of: Mapping[str, str], runs: Sequence[tuple[int, int, str]], *, seconds: int) -> Causes:
    """Causes of an experiment with two load levels and two scenarios, "update" and "read".

    ``arm_of`` names the arms "on" (the control), "off" and "placebo"; ``runs`` holds (id, block, which of the three) of
    those that panels show, ``seconds`` is the length of a load level.
    """
    rng = random.Random(11)
    kinds = {"on": "on", "off": "off", "placebo": "on"}
    names = {arm_of[which]: kind for which, kind in kinds.items()}
    control, others = arm_of["on"], [arm_of["off"], arm_of["placebo"]]
    return Causes(
        tier="sampled sessions",
        text=f"Transactions of {arm_of['off']} no longer wait for the WAL to reach the disk: 4.5 ms of 4.7 ms less per "
        f"transaction. What limits {arm_of['off']} now is the CPU.",
        budgets=tuple(
            _budget(arm, kind, level, scenario)
            for arm, kind in names.items()
            for level in ("all", 0, 1)
            for scenario in (None, "update", "read")
            if scenario is None or level == "all"
        ),
        differences=tuple(_difference(arm, control, names, level) for arm in others for level in ("all", 0, 1)),
        paretos=tuple(
            pareto for arm, kind in names.items() for level in ("all", 0, 1) for pareto in _paretos(arm, kind, level)
        ),
        wait_types=tuple(_wait_type(arm, kind) for arm, kind in names.items()),
        background=tuple(_background(arm) for arm in names),
        limits=tuple(_limit(arm, kind, level) for arm, kind in names.items() for level in (0, 1)),
        curve_models=_models(arm_of),
        crossings=(
            Crossing(
                arm=arm_of["off"], control=control, clients=6.4, below=control, above=arm_of["off"], is_certain=False
            ),
        ),
        stability=tuple(
            _stability(arm, kind, level, [run for run, _, which in runs if arm_of[which] == arm], seconds)
            for arm, kind in names.items()
            for level in (0, 1)
        ),
        associations=_associations(),
        checks=tuple(check for arm, kind in names.items() for level in (0, 1) for check in _checks(arm, kind, level)),
        kinds=tuple(_kind(arm, level) for arm in names for level in (0, 1)),
        legacy=tuple(
            LegacyMetrics(arm=arm, load_level=level, speed=108_000.0 * (1 + level), waitings=21_500.0)
            for arm in names
            for level in (0, 1)
        ),
        scorecard=_scorecard(arm_of),
        panels=tuple(panel for place in runs for panel in _panels(rng, place, arm_of[place[2]], seconds)),
        courses=_courses(names, seconds),
        marks=tuple(mark for run, _, which in runs for mark in _marks(run, which, seconds)),
        log=tuple(summary for arm, kind in names.items() for summary in _log(arm, kind)),
    )


def _wait_type(arm: str, kind: str) -> WaitType:
    parts = (("IO WalSync", 0.7), ("IO DataFileRead", 0.3)) if kind == "on" else (("IO DataFileRead", 1.0),)
    events = tuple(
        ParetoItem(name=name, sessions=2.4 * share, share=share, cumulative=share if number == 0 else 1.0)
        for number, (name, share) in enumerate(parts)
    )
    return WaitType(
        arm=arm,
        kind="IO",
        sessions=2.4,
        share=0.72,
        events=events if len(events) > 1 else (),
        statements=(ParetoItem(name=STATEMENTS[0][0], sessions=2.4, share=1.0, cumulative=1.0),),
    )


def _background(arm: str) -> BackgroundWait:
    return BackgroundWait(
        arm=arm,
        process="checkpointer",
        kind="IO",
        event="DataFileWrite",
        sessions=Estimate(value=0.2, low=0.1, high=0.3),
    )


def _courses(names: Mapping[str, str], seconds: int) -> tuple[Course, ...]:
    t = tuple(second + 0.5 for second in range(2 * seconds))
    return tuple(
        Course(
            metric=metric,
            unit=unit,
            t=t,
            lines=tuple(
                CourseLine(
                    arm=arm,
                    value=tuple(
                        None if second == 5 else mean * (2 if kind == "off" else 1) for second in range(len(t))
                    ),
                )
                for arm, kind in names.items()
            ),
        )
        for metric, unit, mean in (("pgbench.tps", "1/s", 800.0), ("waits.IO", "", 2.1), ("dirty.bytes", "B", 3e7))
    )


def _around(value: float, relative: float = 0.04) -> Estimate:
    spread = abs(value) * relative
    return Estimate(value=value, low=value - spread, high=value + spread)


def _budget(arm: str, kind: str, level: int | str, scenario: str | None) -> LatencyBudget:
    factor = {0: 1.0, 1: 2.4, "all": 1.6}[level] * (0.4 if scenario == "read" else 1.0)
    parts = {name: milliseconds * factor / 1000 for name, milliseconds in PARTS[kind].items()}
    return LatencyBudget(
        arm=arm,
        load_level=level,
        scenario=scenario,
        latency=_around(sum(parts.values()), 0.02),
        parts=tuple(
            BudgetPart(kind=part, event=event, seconds=_around(value))
            for (part, event), value in sorted(parts.items(), key=lambda item: -item[1])
        ),
        closure=0.987,
    )


def _difference(arm: str, control: str, names: Mapping[str, str], level: int | str) -> BudgetDifference:
    mine, theirs = (
        {(part.kind, part.event): part.seconds.value for part in _budget(name, names[name], level, None).parts}
        for name in (arm, control)
    )
    parts = {key: mine.get(key, 0.0) - theirs.get(key, 0.0) for key in {**theirs, **mine}}
    if names[arm] == names[control]:  # what a copy of the control differs by is noise
        parts = {key: 0.004 * value * (-1) ** place for place, (key, value) in enumerate(sorted(theirs.items()))}
    spread = 0.05 * abs(sum(parts.values())) + 0.00005
    total = sum(parts.values())
    return BudgetDifference(
        arm=arm,
        control=control,
        load_level=level,
        difference=Estimate(value=total, low=total - spread, high=total + spread),
        parts=tuple(
            BudgetPart(kind=kind, event=event, seconds=Estimate(value=value, low=value - spread, high=value + spread))
            for (kind, event), value in sorted(parts.items(), key=lambda item: -abs(item[1]))
        ),
    )


def _paretos(arm: str, kind: str, level: int | str) -> tuple[Pareto, Pareto]:
    return (
        _pareto(arm, level, "events", [(name, share, "") for name, share in EVENTS[kind]]),
        _pareto(arm, level, "statements", list(STATEMENTS)),
    )


def _pareto(arm: str, level: int | str, of: str, items: list[tuple[str, float, str]]) -> Pareto:
    found, reached = [], 0.0
    for name, share, detail in items:
        reached += share
        found.append(ParetoItem(name=name, sessions=4 * share, share=share, cumulative=reached, detail=detail))
    head = 1 + sum(item.cumulative < 0.8 for item in found)
    return Pareto(
        arm=arm, load_level=level, of="events" if of == "events" else "statements", head=head, items=tuple(found)
    )


def _limit(arm: str, kind: str, level: int) -> Limit:
    if kind == "on":
        return Limit(
            arm=arm,
            load_level=level,
            resource=Resource.WAL_FLUSH,
            detail="vda",
            text="Commits wait until the WAL is on the disk.",
            suspects=(
                Suspect(
                    resource=Resource.WAL_FLUSH,
                    strength=0.92,
                    detail="vda",
                    evidence=(
                        LimitEvidence(
                            metric="wait.IO",
                            value=0.68,
                            unit="share",
                            threshold=0.3,
                            text="Of the active sessions 68 % wait for WalSync.",
                        ),
                        LimitEvidence(
                            metric="wal.sync_time",
                            value=0.94,
                            unit="s/s",
                            threshold=None,
                            text="The WAL is being flushed 94 % of the time.",
                        ),
                    ),
                ),
                Suspect(resource=Resource.LWLOCKS, strength=0.31, detail="WALWrite", evidence=()),
            ),
        )
    if level == 0:
        near = LimitEvidence(
            metric="vmstat.us", value=0.71, unit="share", threshold=0.8, text="The CPUs are busy for 71 % of the time."
        )
        return Limit(
            arm=arm,
            load_level=level,
            resource=Resource.UNDETERMINED,
            detail="",
            text="Nothing was near its limit.",
            suspects=(Suspect(resource=Resource.CPU, strength=0.35, detail="", evidence=(near,)),),
        )
    busy = LimitEvidence(
        metric="vmstat.us", value=0.97, unit="share", threshold=0.8, text="The CPUs are busy for 97 % of the time."
    )
    return Limit(
        arm=arm,
        load_level=level,
        resource=Resource.CPU,
        detail="",
        text="The CPUs are busy, and more tasks want to run than there are CPUs.",
        suspects=(Suspect(resource=Resource.CPU, strength=0.88, detail="", evidence=(busy,)),),
    )


def _models(arm_of: Mapping[str, str]) -> tuple[CurveModel, ...]:
    return (
        CurveModel(
            arm=arm_of["on"],
            throughput_of_one=None,
            contention=None,
            coherency=None,
            peak=None,
            knee=None,
            error=None,
            reason="two load levels are too few",
        ),
        CurveModel(
            arm=arm_of["off"],
            throughput_of_one=_around(620.0),
            contention=_around(0.08),
            coherency=_around(0.0023, 0.2),
            peak=_around(20.0, 0.1),
            knee=9.0,
            error=0.021,
            reason="",
        ),
    )


def _stability(arm: str, kind: str, level: int, runs: Sequence[int], seconds: int) -> Stability:
    dips = tuple(
        Dip(
            run=run,
            start=level * seconds + 18.0,
            length=4.0,
            depth=0.48 if kind == "on" else 0.61,
            half_recovery=2.0,
            recovery=None if kind == "on" else 3.0,
            stalled=0.0 if kind == "on" else 1.0,
            near=("checkpoint",),
            more=message("dips.more", part="IO WalSync", sessions=4.9),
        )
        for run in runs
    )
    return Stability(
        arm=arm,
        load_level=level,
        coefficient_of_variation=_around(0.11 if kind == "on" else 0.19, 0.1),
        lowest=_around(410.0 if kind == "on" else 900.0, 0.1),
        dip_share=_around(0.09, 0.3),
        stalled=Estimate(value=0.0 if kind == "on" else 0.011),
        trend=Estimate(value=-3.1, low=-9.0, high=2.8),
        dips=dips,
        periods=(
            Period(seconds=30.2, share=0.21, false_alarm=0.0004, like="checkpoint_timeout"),
            Period(seconds=7.7, share=0.03, false_alarm=0.4, like=""),
        ),
        aligned="6 of 6 dips begin within 2 s of a checkpoint; by chance 0.7 would." if level == 1 else "",
        waits=(
            DipWait(kind="IO", event="WalSync", inside=6.1, outside=1.2, chance=0.002),
            DipWait(kind="Lock", event="tuple", inside=0.3, outside=0.2, chance=0.6),
        ),
        signs=(DipSign(metric="vmstat.b", unit="", lead=4.0, before=5.0, usual=1.2, chance=0.01),)
        if kind == "on" and level == 1
        else (),
        signs_tried=14 if level == 1 else 0,
    )


def _associations() -> tuple[Association, ...]:
    def make(first: str, second: str, spearman: float, *, real: bool, part_of: bool = False) -> Association:
        return Association(
            first=first,
            second=second,
            family="waits and system",
            expected="+",
            spearman=spearman,
            low=max(-1.0, spearman - 0.15),
            high=min(1.0, spearman + 0.15),
            pearson=spearman * 0.9,
            p_value=0.0004 if real else 0.34,
            q_value=0.004 if real else 0.5,
            is_real=real,
            part_of=part_of,
            count=360,
        )

    untested = make("waits.Timeout", "vmstat.cs", 0.0, real=False).model_copy(
        update=dict.fromkeys(("spearman", "low", "high", "pearson", "p_value", "q_value"))
    )
    return (
        make("waits.LWLock", "vmstat.sy", 0.21, real=False),
        make("waits.IO", "vmstat.wa", 0.66, real=True),
        make("waits.Lock", "vmstat.cs", -0.41, real=True),
        make("vmstat.bo", "iostat.w_bytes/vda", 0.97, real=True, part_of=True),
        untested,
    )


def _checks(arm: str, kind: str, level: int) -> tuple[Check, ...]:
    def make(
        id_: str, name: str, value: float, *, unit: str, threshold: float, share: float | None, about: str = ""
    ) -> Check:
        limits = ((Level.ALARM, 0.5), (Level.WARNING, 0.25), (Level.OK, 0.0))
        found = next(found for found, limit in limits if (value if share is None else share) >= limit)
        return Check(
            id=id_,
            name=name,
            arm=arm,
            load_level=level,
            object=about,
            value=value,
            unit=unit,
            threshold=threshold,
            share=share,
            level=found,
            advice=None if found is Level.OK else verbatim(f"{name}: look at what {arm} does."),
        )

    is_busy = kind == "off"
    return (
        make("cpu-busy", "CPU busy", 0.93 if is_busy else 0.4, unit="share", threshold=0.8, share=0.9 * is_busy),
        make("write-response", "response time of writes", 0.0061, unit="s", threshold=0.005, share=0.3, about="vda"),
        make("device-queue", "requests in the device's queue", 0.7, unit="", threshold=1.0, share=0.04, about="vda"),
        make(
            "wait-io", "sessions waiting for I/O", 0.15 if is_busy else 0.72, unit="share", threshold=0.04, share=None
        ),
    )


def _kind(arm: str, level: int) -> LoadKind:
    return LoadKind(
        arm=arm,
        load_level=level,
        kind="OLTP",
        hit_ratio=0.994,
        read_per_dirtied=11.2,
        bytes_per_read=8192.0,
        rows_per_transaction=3.0,
        transaction_seconds=0.004,
        text="All five features speak for OLTP.",
    )


def _scorecard(arm_of: Mapping[str, str]) -> Scorecard:
    def values(tps: float, variation: float) -> tuple[CriterionValue, ...]:
        ratios = [Estimate(value=1.0)] * 2 if tps == variation == 1 else [_around(tps, 0.03), _around(variation, 0.2)]
        return (
            CriterionValue(criterion="pgbench.tps", better="higher", weight=2.0, ratio=ratios[0], rank_share=0.98),
            CriterionValue(
                criterion="stability.variation", better="lower", weight=1.0, ratio=ratios[1], rank_share=0.61
            ),
        )

    return Scorecard(
        arms=(
            ArmScore(arm=arm_of["on"], values=values(1.0, 1.0), is_pareto=True, score=0.0, best_share=0.02),
            ArmScore(arm=arm_of["off"], values=values(2.66, 1.7), is_pareto=True, score=0.475, best_share=0.97),
        ),
        recommendations=(
            Recommendation(
                goal="fast",
                arm=arm_of["off"],
                text=f"{arm_of['off']}: throughput +166.0 %, against {arm_of['on']}. This is sure: with 6 blocks it is "
                "the best with a probability of 98.0 %.",
            ),
            Recommendation(
                goal="declared weights",
                arm=arm_of["off"],
                text=f"{arm_of['off']}: throughput +166.0 %, variation of throughput +70.0 %, against {arm_of['on']}.",
            ),
        ),
        trade_off=f"{arm_of['off']} is faster, {arm_of['on']} more even: which is better depends on what you need.",
    )


def _panels(rng: random.Random, place: tuple[int, int, str], arm: str, seconds: int) -> list[Panel]:
    run, block, which = place
    t = tuple(float(second) for second in range(2 * seconds))

    def line(name: str, mean: float, *, gap: bool = False) -> PanelLine:
        values = [
            mean * (1 + 0.4 * math.sin(second / 7) + rng.gauss(0, 0.05)) * (2 if 18 <= second % 30 <= 21 else 1)
            for second in t
        ]
        return PanelLine(
            name=name,
            value=tuple(None if gap and 6 <= second <= 8 else value for second, value in zip(t, values, strict=True)),
        )

    def panel(topic: str, title: Message, unit: str, lines: list[PanelLine], *, stacked: bool = False) -> Panel:
        return Panel(
            run=run, arm=arm, block=block, topic=topic, title=title, unit=unit, stacked=stacked, t=t, lines=tuple(lines)
        )

    def of_disk(title: str) -> Message:
        return message("panel.of-disk", device="vda", title=message(title))

    is_off = which == "off"
    found = [
        panel(
            "waits",
            message("panel.waits"),
            "",
            [line("IO", 0.4 if is_off else 2.6), line("CPU", 2.2, gap=True), line("LWLock", 0.3), line("Lock", 0.2)],
            stacked=True,
        ),
        panel(
            "cpu",
            message("panel.cpu"),
            "share",
            [line("user", 0.3), line("system", 0.1), line("I/O wait", 0.05)],
            stacked=True,
        ),
        panel("disk", of_disk("panel.bytes"), "B/s", [line("read", 2e6), line("written", 31e6)]),
        panel("disk", of_disk("panel.request-time"), "s", [line("read", 0.0004), line("write", 0.0021, gap=True)]),
        panel("memory", message("panel.memory"), "B", [line("available", 3.1e9)]),
        panel("write-back", message("panel.dirty"), "B", [line("dirty", 8e7), line("limit", 4e8)]),
    ]
    return found if which != "placebo" else found[:-1]


def _marks(run: int, which: str, seconds: int) -> list[Mark]:
    parts = (message("log-event.timed"), message("log-event.buffers", number=1250))
    checkpoint = message("log-event", parts=(*parts, message("log-event.writing", time=3.2)))
    vacuum = message("log-event", parts=("pgbench_accounts", message("log-event.pages-removed", number=12)))
    error = verbatim("serialization")
    marks = [
        Mark(run=run, start=start, end=start + 4.5, kind="checkpoint", text=checkpoint)
        for start in (17.0, seconds + 17.0)
    ]
    if which == "off":
        marks += [
            Mark(run=run, start=start, end=start + 0.4, kind="autovacuum", text=vacuum) for start in (5.0, 25.0, 45.0)
        ]
        marks += [Mark(run=run, start=k / 20, end=k / 20, kind="error 40001", text=error) for k in range(400)]
    return marks


def _log(arm: str, kind: str) -> list[LogSummary]:
    found = [
        LogSummary(
            arm=arm,
            kind="checkpoint",
            count=12,
            numbers={"buffers": 15_000.0, "write seconds": 38.4, "sync seconds": 0.9, "distance bytes": 4.1e8},
            text=message("log-summary.all-timed"),
        )
    ]
    if kind == "off":
        found.append(
            LogSummary(arm=arm, kind="error 40001", count=400, numbers={}, text=verbatim("serialization_failure"))
        )
    return found
