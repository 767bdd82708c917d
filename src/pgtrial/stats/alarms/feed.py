"""A detector that is fed minute by minute, and can be put down in one process and taken up in another.

What it has learned and what it remembers are plain numbers (``to_plain``), which JSON can hold exactly: whoever takes
them up gets the same alarms as if nothing had happened. A minute that never comes is a gap, and so is the time between
two processes; a minute that is over when it comes, because a clock was put back, is left out.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from pgtrial.stats.alarms.betting import Stakes
from pgtrial.stats.alarms.blocks import MINUTES, Array, Aspect, Scale, Signal, Stream, blocks_of
from pgtrial.stats.alarms.detector import Alarm, Learned, State, advance, begin
from pgtrial.stats.alarms.prediction import Predictor

FORMAT = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Feed:
    """One set of signals: ``part`` (columns, MINUTES) is what is known of the block that is not over yet."""

    learned: Learned
    state: State
    part: Array


def open_feed(learned: Learned, minute: int) -> Feed:
    """From ``minute`` on, counted like those that ``learn`` had."""
    columns = learned.floors.shape[-2]
    return Feed(learned=learned, state=begin(learned, minute // MINUTES), part=np.full((columns, MINUTES), np.nan))


def take(feed: Feed, minute: int, values: Array) -> tuple[Feed, tuple[Alarm, ...]]:
    """The feed with (columns,) values of a minute, NaN where not known, and the alarms of the block that ended."""
    block, place = divmod(minute, MINUTES)
    if block < feed.state.block:
        return feed, ()
    alarms: tuple[Alarm, ...] = ()
    if block > feed.state.block:
        feed, alarms = _end_block(feed)
        # Blocks of which nothing is known change nothing but the time.
        feed = replace(feed, state=replace(feed.state, block=block))
    part = feed.part.copy()
    part[:, place] = values
    feed = replace(feed, part=part)
    if place == MINUTES - 1:
        feed, more = _end_block(feed)
        alarms += more
    return feed, alarms


def to_plain(feed: Feed) -> dict[str, Any]:
    """Dictionaries, lists, numbers and None, for ``from_plain``."""
    learned = feed.learned
    return {
        "format": FORMAT,
        "signals": [
            {
                "name": each.name,
                "scale": each.scale.value,
                "columns": list(each.columns),
                "group": each.group,
                "has_spread": each.has_spread,
            }
            for each in learned.signals
        ],
        "streams": [
            {"signal": each.signal, "aspect": each.aspect.value, "scale": each.scale.value, "column": each.column}
            for each in learned.streams
        ],
        "learned": {
            **{name: _listed(getattr(learned, name)) for name in _LEARNED},
            "nominal": learned.nominal,
            "weights": _listed(learned.predictor.weights),
            "scale": _listed(learned.predictor.scale),
            "calm": _listed(learned.stakes.calm),
            "blocks": _listed(learned.stakes.blocks),
            "trust": _listed(learned.stakes.trust),
        },
        "state": {name: feed.state.block if name == "block" else _listed(getattr(feed.state, name)) for name in _STATE},
        "part": _listed(feed.part),
    }


def from_plain(plain: dict[str, Any]) -> Feed:
    """ValueError, KeyError or TypeError: it is none that ``to_plain`` made."""
    if plain["format"] != FORMAT:
        raise ValueError(f"expected format {FORMAT}, got {plain['format']}")
    kept = plain["learned"]
    learned = Learned(
        signals=tuple(
            Signal(
                name=each["name"],
                scale=Scale(each["scale"]),
                columns=tuple(each["columns"]),
                group=each["group"],
                has_spread=bool(each["has_spread"]),
            )
            for each in plain["signals"]
        ),
        streams=tuple(
            Stream(
                signal=each["signal"],
                aspect=Aspect(each["aspect"]),
                scale=Scale(each["scale"]),
                column=each["column"],
            )
            for each in plain["streams"]
        ),
        predictor=Predictor(weights=_array(kept["weights"]), scale=_array(kept["scale"])),
        stakes=Stakes(calm=_array(kept["calm"]), blocks=_array(kept["blocks"]), trust=_array(kept["trust"])),
        nominal=float(kept["nominal"]),
        **{name: _array(kept[name]) for name in _LEARNED},
    )
    arrays = {name: _array(plain["state"][name]) for name in _STATE if name != "block"}
    for name in ("silent_until", "onset"):
        arrays[name] = arrays[name].astype(np.int64)
    state = State(block=int(plain["state"]["block"]), **arrays)  # type: ignore[arg-type]
    return Feed(learned=learned, state=state, part=_array(plain["part"]))


_LEARNED = ("floors", "profile", "ahead", "means", "usual", "threshold")
_STATE = tuple(field.name for field in fields(State))


def _end_block(feed: Feed) -> tuple[Feed, tuple[Alarm, ...]]:
    values = blocks_of(feed.part[None], feed.learned.signals, feed.learned.floors)[..., 0]
    state, alarms = advance(feed.learned, feed.state, values)
    return replace(feed, state=state, part=np.full_like(feed.part, np.nan)), alarms


def _listed(values: Any) -> Any:
    listed = values.tolist()

    def told(value: Any) -> Any:
        if isinstance(value, list):
            return [told(each) for each in value]
        return None if math.isnan(value) else value  # JSON has no NaN

    return told(listed)


def _array(listed: Any) -> Array:
    return np.array(listed, dtype=np.float64)
