"""Paragraphs and the pieces of their sentences: fixed words, and what the findings say, with its place there."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter

from pgtrial.findings.findings import ArmFinding, Effect, Findings
from pgtrial.findings.record import ALL
from pgtrial.language import ntr, tr
from pgtrial.report.words import arm_label, change_text, metric_label, placebo_arm
from pgtrial.units import format_share

_WORDS = re.compile(r"<([a-z]+)>(.*?)</\1>")  # a template's own words that are cited
_MOST_SETTINGS = 4  # of an arm that a sentence names
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited:
    """A number, a name or a sentence of the findings as it is written, and the paths in findings.json that it is made
    of: "effects[0].ratio".
    """

    text: str
    paths: tuple[str, ...]


Part = str | Cited
Sentence = tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """``name`` is for programs, ``title`` is for people; sentences are told one after the other."""

    name: str
    title: str
    sentences: tuple[Sentence, ...]

    @property
    def parts(self) -> Sentence:
        """All sentences with blanks between them."""
        parts: list[Part] = []
        for number, sentence in enumerate(self.sentences):
            parts += [" ", *sentence] if number else sentence
        return tuple(parts)

    @property
    def text(self) -> str:
        return text_of(self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Teller:
    """What makes one paragraph; ``tell`` gives no sentence where there is nothing to say.

    The title is English, as catalogues have it.
    """

    name: str
    title: str
    tell: Callable[[Findings], Iterator[Sentence]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An effect and its path in the findings."""

    effect: Effect
    path: str

    def cite(self, text: str, *fields: str) -> Cited:
        return cite(text, *(f"{self.path}.{field}" for field in fields))


def cite(text: str, *paths: str) -> Cited:
    return Cited(text=text, paths=paths)


def source(*paths: str) -> Cited:
    """The paths of words that the template itself has: those between <expect> and </expect>, given as ``expect``."""
    return Cited(text="", paths=paths)


def keep(*fields: str) -> dict[str, str]:
    """Fields that a counted template still has after ``ntr``, for ``say`` to fill in."""
    return {field: f"{{{field}}}" for field in fields}


def say(template: str, **parts: Part | Sentence) -> Sentence:
    """The template, in the language in use, with its fields filled in.

    As in "It took {time}." with time=cite("3 min", "experiment.started", "experiment.ended"), and as in
    "<blocks>6 blocks</blocks> are complete." with blocks=source("experiment.blocks_complete").
    """
    told: list[Part] = []
    place = 0
    for found in _WORDS.finditer(template):
        told += _fill(template[place : found.start()], parts)
        told.append(_cite_words(found[2], parts, parts[found[1]]))
        place = found.end()
    return (*told, *_fill(template[place:], parts))


def _fill(template: str, parts: Mapping[str, Part | Sentence]) -> Iterator[Part]:
    for words, field, _, _ in Formatter().parse(template):
        if words:
            yield words
        if field is not None:
            value = parts[field]
            yield from value if isinstance(value, tuple) else (value,)


def _cite_words(words: str, parts: Mapping[str, Part | Sentence], places: Part | Sentence) -> Cited:
    if not isinstance(places, Cited):
        raise TypeError("words of a template are cited by their source")
    return Cited(text=text_of(tuple(_fill(words, parts))), paths=places.paths)


def enumerate_parts(items: Sequence[Sentence]) -> Sentence:
    """ "a", "a and b", "a, b and c"."""
    if len(items) < 2:
        return join_parts(items)
    return say(tr("{words} and {last}"), words=join_parts(items[:-1]), last=items[-1])


def join_parts(items: Sequence[Sentence], separator: str = ", ") -> Sentence:
    told: list[Part] = []
    for number, item in enumerate(items):
        told += [separator, *item] if number else item
    return tuple(told)


def text_of(parts: Sentence) -> str:
    return "".join(part if isinstance(part, str) else part.text for part in parts)


def key_path(path: str, key: str) -> str:
    """The path of an entry of a table: "settings.work_mem", 'sysctl["vm.swappiness"]'."""
    return f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{json.dumps(key, ensure_ascii=False)}]"


def find_placed(
    findings: Findings, *, arm: str, metric: str, scenario: str | None, level: int | str = ALL
) -> Placed | None:
    """The effect with these coordinates, of a candidate or of the placebo, with its path; None where there is none."""
    wanted = (arm, metric, scenario, level)
    for field, effects in (("effects", findings.effects), ("placebo", findings.placebo)):
        for number, effect in enumerate(effects):
            if effect.key == wanted:
                return Placed(effect=effect, path=f"{field}[{number}]")
    return None


def find_primary(findings: Findings) -> Placed | None:
    """The effect that the hypothesis is about, over all load levels."""
    asked = findings.hypothesis
    return find_placed(findings, arm=asked.arm, metric=asked.metric, scenario=asked.scenario)


def arm_path(findings: Findings, name: str) -> str:
    """The path of an arm: "experiment.arms[1]"; that of all arms for a name that none of them has."""
    for number, arm in enumerate(findings.experiment.arms):
        if arm.name == name:
            return f"experiment.arms[{number}]"
    return "experiment.arms"


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
        low=placed.cite(change_text(effect.low, effect.high, effect.ratio), "low"),
        high=placed.cite(change_text(effect.high, effect.low, effect.ratio), "high"),
    )


def cite_change(placed: Placed) -> Sentence:
    """ "+165 % (95 % interval +158 % to +173 %)"."""
    effect = placed.effect
    if effect.ratio is None:
        return (tr("not measured"),)
    change = placed.cite(change_text(effect.ratio, effect.low, effect.high), "ratio")
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
