"""Hold every number of a text against those of the facts: value as far as it is rounded, sign, unit, metric and arm."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pgtrial.narrate.context import KNOWN_METRICS, LATENCIES, Context, find_contexts
from pgtrial.narrate.directions import Direction, find_direction, find_movement, is_denied
from pgtrial.narrate.mentions import find_mentions
from pgtrial.narrate.quantity import WRITTEN, Mention, Number, Quantity

_WRONG_SIGN = "wrong sign or direction"
_COARSEST = 0.2  # relative distance up to which a rounded number is still that number
_ABOUT = 1.05  # how far "more than" and "almost" may be from the number; a multiple in one word is coarser
_ABOUT_WORD = 1.5
# Numbers of other kinds that a mention can mean.
_MEANT_BY = {
    Quantity.PERCENT: frozenset({Quantity.PERCENT, Quantity.CHANGE}),
    Quantity.TIMES: frozenset({Quantity.TIMES, Quantity.CHANGE}),
    Quantity.PLAIN: frozenset(
        {Quantity.PLAIN, Quantity.P_VALUE, Quantity.COUNT, Quantity.CHANGE, Quantity.TIMES, Quantity.RATE}
    ),
}
_UNDIRECTED = frozenset({Quantity.COUNT, Quantity.PLAIN, Quantity.P_VALUE, Quantity.NUMBERED, Quantity.PERCENTILE})
_OF = re.compile(r"\s+(?:of|as)\b(?!\s+the\s+time)")
# "Rose to 265 %" is of what it was; "rose by 165 %" says the same.
_REACHED = re.compile(
    r"\b(?:rose|risen|rises|grew|grown|grows|increase[sd]?|climb(?:s|ed)|jump(?:s|ed)|fell|fallen|falls|drop(?:s|ped)"
    r"|decrease[sd]?|declined?|reduced|shrank|went|(?:went|is|was)\s+(?:down|up))\s+to"
    r"\s+(?:about\s+|roughly\s+|only\s+|nearly\s+|almost\s+)?$",
    re.IGNORECASE,
)
_NUMERAL = re.compile(r"\d[\d,]*(?:\.\d+)?")
_FROM = re.compile(r"\bfrom\s+(?:about\s+|roughly\s+)?$", re.IGNORECASE)
_TO = re.compile(r"\s*(?:down\s+|up\s+)?to\s+(?:about\s+|roughly\s+|only\s+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a text may say: numbers of the facts, names that may hold digits, arms with their control, ids of facts."""

    numbers: tuple[Number, ...]
    names: frozenset[str] = frozenset()
    arms: frozenset[str] = frozenset()
    control: str = ""
    fact_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A number that the facts do not bear out, and why not."""

    mention: Mention
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A text with how many numbers were looked at, and those that are marked, in the order of the text."""

    text: str
    count: int
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """What a mention may mean by a number of the facts."""

    value: float
    sign: int = 0
    is_signed: bool = False
    needs_word: bool = False  # holds only where a word says which way


def check_text(text: str, known: Known) -> Checked:
    """The text with its marks; nothing in it is changed."""
    mentions = find_mentions(text, names=known.names)
    contexts = find_contexts(text, mentions, known.arms)
    related = {quantity: _related(quantity, known.numbers) for quantity in Quantity}
    faults = {
        mention: _find_fault(mention, contexts[mention], known, related[mention.quantity]) for mention in mentions
    }
    for mention, reason in _wrong_movements(text, mentions, contexts, known):
        faults[mention] = faults[mention] or reason
    marks = tuple(Mark(mention=mention, reason=reason) for mention, reason in faults.items() if reason)
    return Checked(text=text, count=len(mentions), marks=marks)


def _related(quantity: Quantity, numbers: Sequence[Number]) -> tuple[Number, ...]:
    """The numbers that a mention of this kind can mean, each once."""
    kinds = _MEANT_BY.get(quantity, frozenset({quantity}))
    return tuple(dict.fromkeys(number for number in numbers if number.quantity in kinds))


def _find_fault(mention: Mention, context: Context, known: Known, related: Sequence[Number]) -> str:
    """Why the facts do not bear the number out; "" where they do."""
    if mention.quantity is Quantity.FACT:
        return "" if mention.written in known.fact_ids else "there is no such fact"
    if mention.quantity in WRITTEN:
        is_there = any(_is_written(mention, number) for number in related)
        return "" if is_there else f"not a {mention.quantity} of the facts"
    direction = find_direction(context.clause, mention, start=context.start)
    reasons = [_hold_against(mention, number, context, direction, known) for number in related]
    if "" in reasons:
        return ""
    told = [reason for reason in reasons if reason]
    told.sort(key=lambda reason: not reason.startswith(_WRONG_SIGN))
    return told[0] if told else _other_unit(mention, known) or "not in the facts"


def _hold_against(
    mention: Mention, number: Number, context: Context, direction: Direction | None, known: Known
) -> str | None:
    """ "" where the number bears the mention out, None where its value is another, else what is wrong beside that."""
    is_flipped = number.is_signed and bool(context.than) and context.than == number.arm != known.control
    fitting = [
        target for target in _targets(mention, number, context, is_flipped) if _fits(mention, target.value, number)
    ]
    if not fitting:
        return None
    if number.metric in KNOWN_METRICS and context.metrics and number.metric not in context.metrics:
        return f"in the facts this is about {number.metric}"
    if number.clients and context.clients and number.clients not in context.clients:
        return f"in the facts this is with {number.clients} clients"
    if _is_other_arm(number, context, known):
        return f"in the facts this is about “{number.arm}”"
    word = 0 if direction is None else direction.sign(number.better)
    for target in fitting:
        if target.is_signed and _is_same_way(mention, target, direction, word):
            is_void = is_denied(context.clause[: mention.start - context.start])
            return f"the text denies it; the facts say {number.shown}" if is_void else ""
        if not target.is_signed and _may_stand_alone(mention, number, context, direction):
            return ""
    return f"{_WRONG_SIGN}; the facts say {number.shown}" if number.is_signed else "in the facts this is no change"


def _targets(mention: Mention, number: Number, context: Context, is_flipped: bool) -> Iterator[_Target]:
    """The values that a mention of this unit may have by this number."""
    value = number.value
    if number.quantity is Quantity.CHANGE:
        ratio = 1 / value if is_flipped and value else value
        sign = (ratio > 1) - (ratio < 1)
        match mention.quantity:
            case Quantity.PERCENT:
                if _REACHED.search(context.clause, 0, mention.start - context.start):
                    yield _Target(value=ratio)
                    return
                yield _Target(value=abs(ratio - 1), sign=sign, is_signed=True)
                if _OF.match(context.clause[mention.end - context.start :]):
                    yield _Target(value=ratio)
            case Quantity.TIMES:
                yield _Target(value=ratio, sign=sign, is_signed=True)
                if 0 < ratio < 1:
                    yield _Target(value=1 / ratio, sign=sign, is_signed=True, needs_word=True)
            case Quantity.PLAIN:
                yield _Target(value=ratio)
            case _:
                pass
        return
    if not _is_same_kind(mention, number, context):
        return
    sign = (value > 0) - (value < 0)
    yield _Target(value=abs(value), sign=-sign if is_flipped else sign, is_signed=number.is_signed)


def _is_same_kind(mention: Mention, number: Number, context: Context) -> bool:
    if mention.quantity is Quantity.PLAIN:
        return number.quantity is not Quantity.RATE or "throughput" in context.metrics
    if mention.quantity is not number.quantity:
        return False
    return mention.noun == number.noun if mention.quantity in {Quantity.COUNT, Quantity.NUMBERED} else True


def _fits(mention: Mention, target: float, number: Number) -> bool:
    """Whether the target, rounded as the mention is, is the mention."""
    if mention.quantity is Quantity.P_VALUE and mention.relation:
        return target < mention.value if mention.relation == "<" else target > mention.value
    if number.quantity in {Quantity.COUNT, Quantity.NUMBERED, Quantity.PERCENTILE} or mention.step == 0:
        return abs(mention.value - target) < 1e-9
    # A tie is rounded either way in the last written digit, and nowhere else: 195 is not 190.
    is_last_digit = mention.step < 2 * mention.factor
    distance, half = abs(mention.value - target), mention.step / 2 * (1 + (1e-6 if is_last_digit else -1e-6))
    if distance <= half and (mention.value == 0 or distance <= _COARSEST * abs(target)):
        return True
    about = _ABOUT_WORD if mention.is_word else _ABOUT
    if mention.relation == ">":
        return mention.value <= target <= about * mention.value
    return mention.relation == "<" and mention.value / about <= target <= mention.value


def _is_same_way(mention: Mention, target: _Target, direction: Direction | None, word: int) -> bool:
    """Whether sign and words agree with a difference. ``word`` is the sign that ``direction`` says."""
    if target.needs_word:
        return word == target.sign
    is_bound = direction is not None and direction.is_bound
    said = {mention.sign, word if is_bound or not mention.sign else 0} - {0}
    return target.sign == 0 or said <= {target.sign}


def _may_stand_alone(mention: Mention, number: Number, context: Context, direction: Direction | None) -> bool:
    """Whether the text leaves a number that is no difference without a direction; a margin may have one."""
    if mention.sign:
        return number.is_bound or (mention.sign < 0 and number.value < 0)
    is_change = direction is not None and direction.is_bound and mention.quantity not in _UNDIRECTED
    return not is_change or (number.is_bound and context.speaks_of_bounds)


def _is_other_arm(number: Number, context: Context, known: Known) -> bool:
    """Whether the clause names arms, and the number is of none of them."""
    if not number.arm or not context.arms:
        return False
    if number.is_signed or number.quantity is Quantity.CHANGE:  # between an arm and the control
        return number.arm not in context.arms and known.control not in context.arms
    return number.arm not in context.arms and not context.has_other_side


def _is_written(mention: Mention, number: Number) -> bool:
    """A version may be cut at a point, a date at either end."""
    if mention.quantity is Quantity.DATE:
        return mention.written in number.written
    return number.written == mention.written or number.written.startswith(
        (f"{mention.written}.", f"{mention.written}-")
    )


def _other_unit(mention: Mention, known: Known) -> str:
    """Where the same digits are in the facts with another unit; "sixfold" has none."""
    if mention.is_word:
        return ""
    digits, step = mention.value / mention.factor, mention.step / mention.factor
    for number in known.numbers:
        if number.quantity in WRITTEN or not (found := _NUMERAL.search(number.shown)):
            continue
        written = float(found[0].replace(",", ""))
        if written > 1 and abs(written - digits) <= step / 2 * (1 + 1e-6) <= _COARSEST * written:
            return f"wrong unit; the facts say {number.shown}"
    return ""


def _wrong_movements(
    text: str, mentions: Sequence[Mention], contexts: Mapping[Mention, Context], known: Known
) -> Iterator[tuple[Mention, str]]:
    """ "Fell from 1.8 ms to 4.7 ms", or from the arm to the control: right numbers, and the wrong way."""
    for first, second in pairwise(mentions):
        if first.quantity is not second.quantity or not _TO.fullmatch(text[first.end : second.start]):
            continue
        came_from = _FROM.search(text, max(0, first.start - 20), first.start)
        context = contexts[first]
        if came_from is None or came_from.start() < context.start or first.value == second.value:
            continue
        moved = find_movement(text[context.start : came_from.start()])
        sign = 0 if moved is None else moved.sign(_better_of(context, second))
        step = second.value * (second.sign or 1) - first.value * (first.sign or 1)
        if moved is not None and step * sign < 0:
            yield second, f"{_WRONG_SIGN}; “{moved.word}” says another"
        elif _runs_backwards(first, second, context, known):
            yield second, f"{_WRONG_SIGN}; “{known.control}” is where a change begins"


def _runs_backwards(first: Mention, second: Mention, context: Context, known: Known) -> bool:
    """Whether a change begins at another arm's value and ends at the control's, though no arm is named."""
    starts, ends = (_owners(mention, context, known) for mention in (first, second))
    return not context.arms and known.control in ends - starts and bool(starts - ends) and known.control not in starts


def _owners(mention: Mention, context: Context, known: Known) -> set[str]:
    """The arms whose value it is."""
    return {
        number.arm
        for number in _related(mention.quantity, known.numbers)
        if number.arm and not number.is_signed and _hold_against(mention, number, context, None, known) == ""
    }


def _better_of(context: Context, mention: Mention) -> str:
    if context.metrics and context.metrics <= set(LATENCIES):
        return "lower"
    return "higher" if context.metrics == {"throughput"} or mention.quantity is Quantity.RATE else ""
