"""Words that say which way something changed, and which of them belongs to a number."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pgtrial.narrate.quantity import Mention


class Way(StrEnum):
    """``UP`` and ``DOWN`` are of the number itself; the others depend on which direction is good."""

    UP = "up"
    DOWN = "down"
    GOOD = "good"  # faster, better
    BAD = "bad"  # slower, worse


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """``is_bound``: the word says by how much something changed, as in "fell by 62 %", not only that it did."""

    way: Way
    word: str
    is_bound: bool

    def sign(self, better: str) -> int:
        """-1 or 1 for a metric of which ``better`` is good; 0 where the word does not tell."""
        if self.way in {Way.UP, Way.DOWN}:
            return 1 if self.way is Way.UP else -1
        if better not in {"higher", "lower"}:
            return 0
        return 1 if (self.way is Way.GOOD) == (better == "higher") else -1


_WORDS = {
    Way.UP: r"higher|increas(?:e|es|ed|ing)|ris(?:e|es|en|ing)|rose|gr(?:ew|ow|ows|own|owth)|greater|larger|bigger"
    r"|longer|jump(?:s|ed)?|climb(?:s|ed)?|add(?:s|ed)|additional|soar(?:s|ed)?|went up|goes up",
    Way.DOWN: r"lower(?:s|ed)?|decreas(?:e|es|ed|ing)|fall(?:s|en|ing)?|fell|drop(?:s|ped|ping)?"
    r"|reduc(?:e|es|ed|ing|tion)|declin(?:e|es|ed|ing)|shr(?:ank|ink|inks|unk)|smaller|shorter|cut(?:s|ting)?"
    r"|sav(?:e|es|ed|ing|ings)|plunged|sank|went down|goes down|diminish(?:es|ed)",
    Way.GOOD: r"faster|quicker|speed-?up|sped up|better|improv(?:e|es|ed|ing|ement|ements)|gain(?:s|ed)?|advantage"
    r"|benefit(?:s|ed)?|outperform(?:s|ed)?|ahead|beats?|accelerat(?:es|ed|ion)",
    Way.BAD: r"slower|slow-?down|slow(?:s|ed)(?: down)?|worse(?:n|ns|ned|ning)?|degrad(?:e|es|ed|ing|ation)"
    r"|regress(?:es|ed|ion)?|loss(?:es)?|los(?:t|es?)|penalty|suffer(?:s|ed)?|deteriorat(?:es|ed|ion)|behind",
}
# These count only right beside a number: elsewhere they have other meanings.
_AHEAD = {Way.UP: "|(?<!-)up", Way.DOWN: "|(?<!-)down"}
_BESIDE = {Way.UP: "|more|extra|(?<!-)up|above|over", Way.DOWN: "|less|fewer|(?<!-)down|below|under"}


def _compile(more: Mapping[Way, str]) -> re.Pattern[str]:
    """One group for each way."""
    return re.compile(
        "|".join(rf"(?P<{way}>\b(?:{words}{more.get(way, '')})\b)" for way, words in _WORDS.items()), re.IGNORECASE
    )


_ANYWHERE = _compile({})
_BEFORE_NUMBER = _compile(_AHEAD)
_BEHIND_NUMBER = _compile(_BESIDE)
_QUALIFIERS = (
    r"(?:about|roughly|nearly|almost|around|some|a|an|only|just|approximately|over|exactly|up to|more than|at least)"
)
# Between a number and a word behind it: "62 % lower", "a 62 % larger drop", "165 % throughput gain".
_AFTER = re.compile(r"\W{0,3}(?:(?!than\b|and\b|or\b|but\b|with\b|to\b|of\b|in\b|for\b|is\b|at\b)[\w-]+\s+){0,2}")
# Between a word and a number behind it: "fell 62 %", "cuts p95 latency by about 62 %", "a drop in latency of 62 %".
_BEFORE = re.compile(
    rf"(?::|(?:\s+[\w.%-]+){{0,5}}?\s+by|(?:\s+in(?:\s+[\w.%-]+){{1,4}})?\s+of)?\s*(?:{_QUALIFIERS}\s+)*[\"“*_(]*",
    re.IGNORECASE,
)
# Between a word and "from … to …": "reduces the p95 latency from".
_MOVED = re.compile(r"(?:\s+[\w.%“”\"-]+){0,5}\s*")
_NOT_OF_IT = re.compile(r"^\s+(?:end|bound|limit|edge|side|half|part|level|is better|the better)\b", re.IGNORECASE)
_THAN_NUMBER = re.compile(r"^\s+than\s+(?:the\s+|about\s+|a\s+|margin\s+of\s+|by\s+)*$", re.IGNORECASE)
_NEGATED = re.compile(r"\b(?:not|no|never|nor|neither|without|cannot|\w+n[’']t)\s+(?:[\w-]+\s+){0,2}$", re.IGNORECASE)
# In front of a number: "did not fall by about", "was not". Of "not only", "not more than" it is none.
_DENIED = re.compile(
    r"(?:\b(?:not|never|cannot|hardly)|\w+n[’']t)\s+(?:(?:have|be|been|even|really|clearly|actually)\s+)*"
    r"(?:[\w-]+\s+(?:in\s+[\w.-]+\s+)?by\s+)?(?:about\s+|roughly\s+|a\s+|an\s+|the\s+)?$",
    re.IGNORECASE,
)
_FAR_AWAY = 90  # characters beyond which no word belongs to a number


def find_direction(clause: str, mention: Mention, *, start: int) -> Direction | None:
    """The word of the clause that says which way the mentioned number goes; None where none does.

    ``start`` is where the clause begins in the text that the mention's place is counted in.
    """
    first = max(start, mention.start - _FAR_AWAY)
    clause = clause[first - start : mention.end - start + _FAR_AWAY]
    begin, end = mention.start - first, mention.end - first
    behind = _BEHIND_NUMBER.search(clause, end)
    if behind and _is_right_behind(clause, end, behind) and not _is_void(clause, behind, begin):
        return _direction(behind, is_bound=True)
    before = [match for match in _BEFORE_NUMBER.finditer(clause, 0, begin) if not _is_void(clause, match, begin)]
    if before and _BEFORE.fullmatch(clause, before[-1].end(), begin):
        return _direction(before[-1], is_bound=True)
    distances = {
        match: max(begin - match.end(), match.start() - end)
        for match in _ANYWHERE.finditer(clause)
        if not _is_void(clause, match, begin) and not begin <= match.start() < end
    }
    nearest = min(distances, key=lambda match: distances[match], default=None)
    return None if nearest is None else _direction(nearest, is_bound=False)


def _is_right_behind(clause: str, end: int, word: re.Match[str]) -> bool:
    """Whether a word belongs to the number that ends at ``end``; one such as "below" only without words between."""
    between = _AFTER.fullmatch(clause, end, word.start())
    return bool(between) and (bool(_ANYWHERE.fullmatch(word[0])) or not re.search(r"\w", clause[end : word.start()]))


def find_movement(before: str) -> Direction | None:
    """The word that says which way something went, in front of "from … to …"."""
    found = [match for match in _BEFORE_NUMBER.finditer(before) if not _is_void(before, match, len(before))]
    if found and _MOVED.fullmatch(before, found[-1].end()):
        return _direction(found[-1], is_bound=True)
    return None


def is_denied(before: str) -> bool:
    """Whether the text in front of a number says that it is not so: "did not fall by 62 %"."""
    return bool(_DENIED.search(before[-_FAR_AWAY:]))


def _direction(match: re.Match[str], *, is_bound: bool) -> Direction:
    assert match.lastgroup is not None  # every alternative is named
    return Direction(way=Way(match.lastgroup), word=match[0], is_bound=is_bound)


def _is_void(clause: str, match: re.Match[str], begin: int) -> bool:
    """Whether the word says nothing about the number: negated, of a bound, or in "more than 3 %" itself."""
    if _NOT_OF_IT.match(clause[match.end() :]) or _NEGATED.search(clause[: match.start()]):
        return True
    return match.end() <= begin and bool(_THAN_NUMBER.match(clause[match.end() : begin]))
