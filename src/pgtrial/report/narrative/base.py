"""What a paragraph is: fixed words, and between them what is taken from the findings, with its place there."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter

from pgtrial.findings.findings import Effect, Findings
from pgtrial.language import tr
from pgtrial.report.words import ALL

_WORDS = re.compile(r"<([a-z]+)>(.*?)</\1>")  # a template's own words that are cited
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


def enumerate_choices(items: Sequence[Sentence]) -> Sentence:
    """ "a", "a or b", "a, b or c"."""
    if len(items) < 2:
        return join_parts(items)
    return say(tr("{words} or {last}"), words=join_parts(items[:-1]), last=items[-1])


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
            if (effect.arm, effect.metric, effect.scenario, effect.load_level) == wanted:
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
