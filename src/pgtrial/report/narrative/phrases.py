"""Pieces that several paragraphs need: a change with its interval, an arm with what it sets, a list of load levels."""

from pgtrial.findings.findings import ArmFinding, Findings
from pgtrial.language import ntr, tr
from pgtrial.report.narrative.base import (
    Cited,
    Part,
    Placed,
    Sentence,
    arm_path,
    cite,
    enumerate_parts,
    find_placed,
    key_path,
    say,
    source,
)
from pgtrial.report.words import arm_label, change_text, metric_label, placebo_arm
from pgtrial.units import format_share

_MOST_SETTINGS = 4  # of an arm that a sentence names


def cite_arm(findings: Findings, name: str) -> Cited:
    return cite(tr("“{text}”", text=arm_label(findings, name)), f"{arm_path(findings, name)}.name")


def cite_metric(findings: Findings) -> Sentence:
    """The metric of the claim, with its scenario: "throughput of read"."""
    asked = findings.hypothesis
    metric = cite(metric_label(asked.metric), "hypothesis.metric")
    if asked.scenario is None:
        return (metric,)
    return say(tr("{metric} of {scenario}"), metric=metric, scenario=cite(asked.scenario, "hypothesis.scenario"))


def cite_interval(placed: Placed) -> Sentence:
    """ "+158 % to +173 %"; nothing where there is no interval."""
    effect = placed.effect
    if effect.low is None or effect.high is None:
        return ()
    return say(
        tr("{low} to {high}"),
        low=placed.cite(change_text(effect.low), "low"),
        high=placed.cite(change_text(effect.high), "high"),
    )


def cite_change(placed: Placed) -> Sentence:
    """ "+165 % (95 % interval +158 % to +173 %)"."""
    effect = placed.effect
    if effect.ratio is None:
        return (tr("not measured"),)
    change = placed.cite(change_text(effect.ratio), "ratio")
    interval = cite_interval(placed)
    if not interval:
        return say(tr("{change}, without an interval"), change=change)
    confidence = placed.cite(format_share(effect.confidence), "confidence")
    return say(
        tr("{change} ({confidence} interval {interval})"), change=change, confidence=confidence, interval=interval
    )


def cite_settings(findings: Findings, arm: ArmFinding, others: tuple[ArmFinding, ...]) -> Sentence:
    """What an arm sets otherwise than one of the others, as it declares it; nothing where that is nothing."""
    path = arm_path(findings, arm.name)
    mine = _declared(arm)
    items: list[Sentence] = [
        (cite(f"{key[-1]} = {value}", _declared_path(path, key)),)
        for key, value in mine.items()
        if any(_declared(other).get(key) != value for other in others)
    ]
    if len(items) > _MOST_SETTINGS:
        more = len(items) - _MOST_SETTINGS
        rest = ntr("<rest>{count}</rest> more", "<rest>{count}</rest> more", more)
        items = [*items[:_MOST_SETTINGS], say(rest, rest=source(f"{path}.settings", f"{path}.knobs"))]
    return enumerate_parts(items)


def placebo_change(findings: Findings) -> Placed | None:
    """The placebo's effect on the metric of the claim, with its path."""
    asked, arm = findings.hypothesis, placebo_arm(findings)
    if arm is None:
        return None
    return find_placed(findings, arm=arm, metric=asked.metric, scenario=asked.scenario)


def close(text: str) -> str:
    """A text of the findings as the end of a sentence: with a period. Its first word may be a name, and stays."""
    kept = text.strip()
    return kept if not kept or kept.endswith((".", "!", "?")) else f"{kept}."


def _declared(arm: ArmFinding) -> dict[tuple[str, ...], str]:
    """Everything that an arm declares: ("work_mem",) or ("sysctl", "vm.swappiness") to its value."""
    found: dict[tuple[str, ...], str] = {(name,): value for name, value in arm.settings.items()}
    for table, values in arm.knobs.items():
        found.update({(table, name): value for name, value in values.items()})
    return found


def _declared_path(path: str, key: tuple[str, ...]) -> str:
    if len(key) == 1:
        return key_path(f"{path}.settings", key[0])
    return key_path(key_path(f"{path}.knobs", key[0]), key[1])


def quoted(part: Part) -> Sentence:
    return say(tr("“{text}”"), text=part)
