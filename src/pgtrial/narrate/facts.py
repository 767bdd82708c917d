"""A fact: a line of the dossier with the numbers that it allows a text to use."""

from dataclasses import dataclass, replace
from functools import lru_cache

from pgtrial.findings.findings import Effect
from pgtrial.findings.record import Estimate
from pgtrial.narrate.context import find_contexts, find_metrics
from pgtrial.narrate.directions import Way, find_direction
from pgtrial.narrate.mentions import find_mentions
from pgtrial.narrate.quantity import WRITTEN, Number, Quantity
from pgtrial.report.cause_words import format_signed, format_value
from pgtrial.report.words import change_text, effect_text, format_p, metric_label, p_of
from pgtrial.units import format_share, format_times

# Units of the causes, and what they measure.
_QUANTITIES = {
    "share": Quantity.PERCENT,
    "s": Quantity.SECONDS,
    "B": Quantity.BYTES,
    "B/s": Quantity.BYTE_RATE,
    "1/s": Quantity.RATE,
    "1/min": Quantity.RATE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """``text`` says what it is, ``value`` what was found, as the reports write it; ``path`` is its place in the
    findings. ``id`` is given when the dossier is put together.
    """

    text: str
    value: str
    path: str
    numbers: tuple[Number, ...]
    id: str = ""


def text_fact(text: str, value: str, path: str, *, arm: str = "") -> Fact:
    """A fact that is a sentence or a label: the numbers in it may be used as it uses them."""
    return Fact(text=text, value=value, path=path, numbers=tuple(replace(n, arm=arm) for n in numbers_in(value)))


def count_fact(text: str, count: int, noun: str, path: str) -> Fact:
    """So many blocks, runs, …"""
    number = Number(value=float(count), quantity=Quantity.COUNT, noun=noun, shown=f"{count} {noun}s")
    return Fact(text=text, value=f"{count} {noun}{'' if count == 1 else 's'}", path=path, numbers=(number,))


def share_fact(text: str, share: float, path: str, *, is_bound: bool = False) -> Fact:
    """A share that somebody chose: a margin, a confidence."""
    shown = format_share(share)
    number = Number(value=share, quantity=Quantity.PERCENT, shown=shown, is_bound=is_bound)
    return Fact(text=text, value=shown, path=path, numbers=(number,))


def value_fact(
    text: str,
    estimate: Estimate,
    unit: str,
    path: str,
    *,
    arm: str = "",
    metric: str = "",
    clients: int = 0,
    is_signed: bool = False,
) -> Fact:
    """A measured value with its interval, in a unit of the causes; ``is_signed`` for a difference."""
    write = format_signed if is_signed else format_value
    quantity = _QUANTITIES.get(unit, Quantity.PLAIN)
    scale = 1 / 60 if unit == "1/min" else 1.0
    present = [value for value in (estimate.value, estimate.low, estimate.high) if value is not None]
    numbers = [
        Number(
            value=value * scale,
            quantity=quantity,
            shown=write(value, unit),
            metric=metric,
            better="lower" if quantity is Quantity.SECONDS else "",
            clients=clients,
            arm=arm,
            is_signed=is_signed,
        )
        for value in present
    ]
    shown = write(estimate.value, unit)
    if len(present) == 3:
        shown += f" (interval {write(estimate.low, unit)} to {write(estimate.high, unit)})"
    # What is written is rounded, and may be rounded again.
    numbers += [
        replace(numbers[0], value=number.value, shown=number.shown)
        for number in numbers_in(shown)
        if number.quantity is quantity and number.is_signed == is_signed
    ]
    return Fact(text=text, value=shown, path=path, numbers=tuple(numbers))


def effect_fact(text: str, effect: Effect, path: str, *, clients: int = 0) -> Fact:
    """The change of a metric with interval, p-value and decision."""
    if effect.ratio is None:
        return Fact(text=text, value="not measured", path=path, numbers=())
    metric = metric_label(effect.metric)
    base = Number(
        value=effect.ratio,
        quantity=Quantity.CHANGE,
        shown=change_text(effect.ratio),
        metric=metric,
        better=effect.better,
        clients=clients,
        arm=effect.arm,
        is_signed=True,
    )
    numbers = [
        replace(base, value=ratio, shown=change_text(ratio))
        for ratio in (effect.ratio, effect.low, effect.high)
        if ratio is not None
    ]
    # What is written is rounded, and may be rounded again.
    numbers += [
        replace(base, value=1 + number.value, shown=number.shown)
        for number in numbers_in(effect_text(effect))
        if number.is_signed and number.quantity is Quantity.PERCENT
    ]
    numbers.append(Number(value=effect.confidence, quantity=Quantity.PERCENT, shown=format_share(effect.confidence)))
    numbers.append(count_fact("", effect.blocks, "block", path).numbers[0])
    told = [effect_text(effect), f"{format_times(effect.ratio)} that of the control", f"{effect.blocks} blocks"]
    p_value = p_of(effect)
    if p_value is not None:
        numbers.append(
            Number(value=p_value, quantity=Quantity.P_VALUE, shown=f"p = {format_p(p_value)}", metric=metric)
        )
        told.append(f"p {format_p(p_value)}")
    return Fact(text=text, value="; ".join([*told, str(effect.decision)]), path=path, numbers=tuple(numbers))


@lru_cache(maxsize=2000)  # a fact's text is read again for its percentiles
def numbers_in(text: str) -> tuple[Number, ...]:
    """The numbers that a sentence of the findings holds, with the directions that it gives them."""
    mentions = find_mentions(text)
    contexts = find_contexts(text, mentions, ())
    found = []
    for mention in mentions:
        context = contexts[mention]
        direction = find_direction(context.clause, mention, start=context.start)
        sign, better = mention.sign, ""
        if not sign and direction is not None and direction.is_bound and mention.quantity not in WRITTEN:
            better = "higher" if direction.way in {Way.GOOD, Way.BAD} else ""
            sign = direction.sign(better)
        metrics = find_metrics(context.clause)
        found.append(
            Number(
                value=mention.value * (sign or 1),
                quantity=mention.quantity,
                shown=mention.text,
                noun=mention.noun,
                metric=next(iter(metrics)) if len(metrics) == 1 else "",
                better=better,
                is_signed=sign != 0,
                written=mention.written,
            )
        )
    return tuple(found)
