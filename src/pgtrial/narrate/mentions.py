"""Find every number that a text mentions, with its sign and unit.

Ordinals, the numbers of lists and steps, and digits inside identifiers ("vda1", "p95" apart) are none. A number without
a unit takes that of the one it stands in a range or list with: "4, 8 and 16 clients", "158–173 %", "6 of 6 blocks".
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from pgtrial.narrate.labels import find_labels
from pgtrial.narrate.numerals import (
    Span,
    find_digit_numbers,
    find_fractions,
    find_multiples,
    find_word_numbers,
    search_before,
)
from pgtrial.narrate.quantity import Mention, Quantity

_LISTED = re.compile(r"^[ \t]*(?:[>#*•|-]+[ \t]*)*(?:\*\*|__)?\(?\d{1,2}[.)](?=[\s*_])", re.MULTILINE)
_INLINE_LIST = re.compile(r"\((\d{1,2})\)")
_ORDINAL = re.compile(r"(?<![\w.])\d+(?:st|nd|rd|th)\b(?![ -]percentile)")
_IDENTIFIER = re.compile(r"(?<![\w.])(?!\d|[xX]\d)\w*\d[\w]*(?:[.-]\w+)*")
_COUNTED_BY_ORDER = re.compile(
    r"\b(?:steps?|sections?|points?|options?|figures?|tables?|paragraphs?|parts?|phases?|items?|notes?|questions?"
    r"|levels?|reasons?|numbers?|no\.)\s+#?$",
    re.IGNORECASE,
)
_TIMES_IN = re.compile(r"\s+(?:in|out of)\s+(?:two|three|four|five|ten|twenty|a hundred)\b")
_RUN_NUMBER = re.compile(r"\b(?P<noun>run|block|slot)s?\s+#?$", re.IGNORECASE)
_CONNECTOR = re.compile(
    r"\s*(?:–|—|-|/|\.\.\.?|…|,|,?\s*(?:and|or|to|through|against|vs\.?|versus|instead of|rather than|than"
    r"|compared (?:with|to)|of(?:\s+(?:the|all|its))?))\s*(?:about\s+|roughly\s+)?"
)
_SPREADING = frozenset(
    {Quantity.PERCENT, Quantity.POINTS, Quantity.TIMES, Quantity.SECONDS, Quantity.BYTES, Quantity.BYTE_RATE}
    | {Quantity.RATE, Quantity.COUNT}
)
_DURATION_GAP = re.compile(r"\s*(?:and\s+)?")


def find_mentions(text: str, *, names: Iterable[str] = ()) -> tuple[Mention, ...]:
    """Numbers in the order of the text. Digits that belong to one of the ``names`` are none."""
    taken = _taken_by_names(text, names)
    found: list[Mention] = []
    for mention in (*find_labels(text), *find_multiples(text), *find_fractions(text)):
        _claim(mention, found, taken)
    taken += [match.span() for match in _LISTED.finditer(text)]
    taken += _inline_list(text)
    taken += [match.span() for match in _ORDINAL.finditer(text)]
    taken += [match.span() for match in _IDENTIFIER.finditer(text)]
    for mention in (*find_word_numbers(text), *find_digit_numbers(text, taken)):
        _claim(mention, found, taken)
    ordered = [mention for mention in sorted(found, key=lambda mention: mention.start) if not _is_order(text, mention)]
    exact = set(names)
    joined = _join_durations(text, _spread_units(text, _number_runs(text, ordered)))
    return tuple(mention for mention in joined if mention.text.strip() not in exact)


def name_spans(text: str, name: str) -> list[Span]:
    """Where the name stands as a word of its own."""
    if not name:
        return []
    return [match.span() for match in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text)]


def _taken_by_names(text: str, names: Iterable[str]) -> list[Span]:
    """Names with a letter that no number begins with; one such as "4GB" is told from a number by its whole text."""
    with_letters = (name for name in names if name and not name[0].isdigit() and any(map(str.isdigit, name)))
    starting = (name for name in names if name and name[0].isdigit() and re.search(r"\d[\w.]*[_-]\w", name))
    return [span for name in (*with_letters, *starting) for span in name_spans(text, name)]


def _claim(mention: Mention, found: list[Mention], taken: list[Span]) -> None:
    if all(mention.end <= start or mention.start >= end for start, end in taken):
        found.append(mention)
        taken.append((mention.start, mention.end))


def _inline_list(text: str) -> list[Span]:
    """ "(1) … (2) …", where the numbers count up from 1."""
    matches = list(_INLINE_LIST.finditer(text))
    if len(matches) < 2 or [int(match[1]) for match in matches] != list(range(1, len(matches) + 1)):
        return []
    return [match.span() for match in matches]


def _spread_units(text: str, mentions: list[Mention]) -> list[Mention]:
    """From the right: a plain number takes the unit of its neighbour in a range or list."""
    ordered = list(mentions)
    for place in range(len(ordered) - 2, -1, -1):
        first, second = ordered[place], ordered[place + 1]
        if first.quantity is not Quantity.PLAIN or second.quantity not in _SPREADING:
            continue
        if _CONNECTOR.fullmatch(text[first.end : second.start]):
            factor = second.factor if first.factor == 1 else 1.0  # one with a prefix of its own has it already
            ordered[place] = replace(
                first,
                quantity=second.quantity,
                value=first.value * factor,
                step=first.step * factor,
                factor=first.factor * factor,
                noun=second.noun,
            )
    return ordered


def _number_runs(text: str, mentions: list[Mention]) -> list[Mention]:
    """ "run 3", "runs 3 and 4": which one, not how many."""
    ordered = list(mentions)
    for place, mention in enumerate(ordered):
        if mention.quantity is not Quantity.PLAIN or not mention.text.isdigit():
            continue
        named = search_before(_RUN_NUMBER, text, mention.start)
        before = ordered[place - 1] if place else None
        if named:
            ordered[place] = replace(mention, quantity=Quantity.NUMBERED, noun=named["noun"].lower())
        elif before and before.quantity is Quantity.NUMBERED and _CONNECTOR.fullmatch(text[before.end : mention.start]):
            ordered[place] = replace(mention, quantity=Quantity.NUMBERED, noun=before.noun)
    return ordered


def _join_durations(text: str, mentions: list[Mention]) -> list[Mention]:
    """ "3 min 20 s" and "1 hour and 30 minutes" are one time each."""
    joined: list[Mention] = []
    for mention in mentions:
        last = joined[-1] if joined else None
        if last is not None and _continues(text, last, mention):
            joined[-1] = replace(
                last,
                end=mention.end,
                text=text[last.start : mention.end],
                value=last.value + mention.value,
                step=mention.step,
                factor=mention.factor,
            )
        else:
            joined.append(mention)
    return joined


def _continues(text: str, last: Mention, mention: Mention) -> bool:
    """Whether a time goes on with a smaller unit."""
    both = last.quantity is mention.quantity is Quantity.SECONDS
    is_smaller = last.factor >= 60 and mention.factor < last.factor and not mention.sign
    return both and is_smaller and bool(_DURATION_GAP.fullmatch(text[last.end : mention.start]))


def _is_order(text: str, mention: Mention) -> bool:
    """ "Step 3", and the way of speaking "four times in five"."""
    if mention.quantity is Quantity.TIMES:
        return bool(_TIMES_IN.match(text, mention.end))
    return mention.quantity is Quantity.PLAIN and bool(search_before(_COUNTED_BY_ORDER, text, mention.start))
