"""What stands around a number: its clause, the metrics and arms that are named there, and a change from one value to
another.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pgtrial.narrate.mentions import name_spans
from pgtrial.narrate.quantity import Mention, Quantity

_SENTENCE_END = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\bcf)(?<!\bapprox)[.!?]+[\"”')\]*_]*(?=\s|$)|\n\s*(?=\n|[-*#>|•]|\d{1,2}[.)]\s)|\|\s*\n"
)
_BREAK = re.compile(r"[;:]|,|\b(?:and|while|but|whereas|though|although|however|yet)\b", re.IGNORECASE)
_METRICS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), metrics)
    for pattern, metrics in (
        (r"\bbandwidth\b", ("bandwidth",)),
        (r"\bfile requests\b|\biops\b", ("file requests per second",)),
        (r"\bthroughput\b|\btps\b|\btransactions?\s*(?:per|/|a)\s*s", ("throughput",)),
        (r"\bp50\b|\bmedian\b|\b50th[- ]percentile", ("latency p50",)),
        (r"\bp95\b|\b95th[- ]percentile", ("latency p95",)),
        (r"\bp99\b(?!\.)|\b99th[- ]percentile", ("latency p99",)),
        (r"\bp99\.9\b|\b99\.9th[- ]percentile", ("latency p99.9",)),
        (r"\b(?:mean|average)\s+(?:latency|response)|\blatency\s+mean\b", ("latency mean",)),
        (r"\bfailures?\b|\bfailed\b", ("failures",)),
    )
)
_LATENCY = re.compile(r"\blatenc(?:y|ies)\b|\bresponse\s+times?\b", re.IGNORECASE)
LATENCIES = ("latency mean", "latency p50", "latency p95", "latency p99", "latency p99.9")
KNOWN_METRICS = frozenset(metric for _, metrics in _METRICS for metric in metrics)
_OTHER_SIDE = re.compile(
    r"\b(?:instead of|against|compared|versus|vs|than|from|rather|both|each|either|control|whereas)\b",
    re.IGNORECASE,
)
_BOUND_WORDS = re.compile(
    r"\b(?:margin|threshold|smallest|detect\w*|found|find|matter\w*|would|could|might|at least|more than|less than"
    r"|at most|within|beyond|requir\w*|tolera\w*|noise|declared|limit of|allowed|worst case)\b",
    re.IGNORECASE,
)
_SHY = re.compile(
    r"[a-z]{1,12}"
)  # an arm's name that may be an ordinary word counts only in quotes, or named as an arm


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """``clause`` begins at ``start`` of the text; ``metrics``, ``arms``, ``clients`` are empty where none is named."""

    clause: str
    start: int
    metrics: frozenset[str]
    arms: frozenset[str]
    clients: frozenset[int]
    than: str  # the arm behind "than", "" without one
    has_other_side: bool  # the arm named is compared with one that is not
    speaks_of_bounds: bool  # a margin, or what could be detected


def find_contexts(text: str, mentions: Sequence[Mention], arms: Iterable[str]) -> Mapping[Mention, Context]:
    """The context of each mention."""
    names = tuple(arms)
    contexts: dict[Mention, Context] = {}
    for begin, end in _sentences(text):
        sentence = text[begin:end]
        inside = [mention for mention in mentions if begin <= mention.start < end]
        for start, stop in _clauses(text, begin, end, inside):
            clause = text[start:stop]
            context = Context(
                clause=clause,
                start=start,
                metrics=find_metrics(clause) or find_metrics(sentence),
                arms=find_arms(clause, names),
                clients=_find_clients(inside, start, stop),
                than=_find_than(clause, names),
                has_other_side=bool(_OTHER_SIDE.search(sentence)),
                speaks_of_bounds=bool(_BOUND_WORDS.search(clause)),
            )
            contexts.update((mention, context) for mention in inside if start <= mention.start < stop)
    return contexts


def find_metrics(text: str) -> frozenset[str]:
    """Labels of the metrics that are named; "latency" alone is all of them."""
    found = {metric for pattern, metrics in _METRICS if pattern.search(text) for metric in metrics}
    if _LATENCY.search(text) and not found & set(LATENCIES):
        found.update(LATENCIES)
    return frozenset(found)


def find_arms(text: str, names: Iterable[str]) -> frozenset[str]:
    found = set()
    for name in names:
        for start, end in name_spans(text, name):
            is_quoted = text[start - 1 : start] in set("\"“'‘`*") and text[end : end + 1] in set("\"”'’`*")
            is_named = re.search(r"\barm\s+$", text[:start]) or re.match(r"\s+arm\b", text[end:])
            if not _SHY.fullmatch(name) or is_quoted or is_named:
                found.add(name)
    return frozenset(found)


def _find_clients(mentions: Sequence[Mention], start: int, stop: int) -> frozenset[int]:
    """The load levels that are named by their number of clients."""
    return frozenset(
        round(mention.value) for mention in mentions if mention.noun == "client" and start <= mention.start < stop
    )


def _find_than(clause: str, names: Iterable[str]) -> str:
    """The arm that is named behind "than"."""
    quotes = "[\"“'‘`*]*"
    for name in sorted(names, key=len, reverse=True):
        if re.search(rf"\bthan\s+(?:the\s+)?(?:that\s+of\s+)?(?:arm\s+)?{quotes}{re.escape(name)}(?!\w)", clause):
            return name
    return ""


def _sentences(text: str) -> list[tuple[int, int]]:
    spans, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        spans.append((start, match.end()))
        start = match.end()
    spans.append((start, len(text)))
    return [(begin, end) for begin, end in spans if begin < end]


def _clauses(text: str, begin: int, end: int, mentions: Sequence[Mention]) -> list[tuple[int, int]]:
    """The sentence cut where one statement about a metric ends and one about another begins.

    A cut needs a number before it, and behind it, up to the next possible cut, a metric and a number; a range or list
    of numbers, and what is in parentheses, is never cut.
    """
    places = [
        begin + match.start()
        for match in _BREAK.finditer(text[begin:end])
        if not _is_inside(text, begin, begin + match.start(), mentions)
    ]
    starts = [begin]
    for number, place in enumerate(places):
        after = places[number + 1] if number + 1 < len(places) else end
        has_number_before = any(starts[-1] <= mention.start < place for mention in mentions)
        has_number_after = any(place <= mention.start < after and _is_amount(mention) for mention in mentions)
        if has_number_before and has_number_after and find_metrics(text[place:after]):
            starts.append(place)
    return list(zip(starts, [*starts[1:], end], strict=True))


def _is_amount(mention: Mention) -> bool:
    return mention.quantity is not Quantity.PERCENTILE


def _is_inside(text: str, begin: int, place: int, mentions: Sequence[Mention]) -> bool:
    """Whether a place lies in parentheses, in a number, or between numbers of one range or list."""
    before = text[begin:place]
    if before.count("(") > before.count(")"):
        return True
    for first, second in pairwise(mentions):
        if first.end <= place < second.start and re.fullmatch(
            r"\s*(?:,|and|or|to|–|-|,\s*and)?\s*(?:and|or|to)?\s*", text[first.end : second.start]
        ):
            return True
    return any(mention.start <= place < mention.end for mention in mentions)
