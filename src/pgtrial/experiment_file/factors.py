"""Names of the combinations that factors make; the hypothesis refers to an arm by such a name."""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pgtrial.errors import SpecError
from pgtrial.experiment_file.experiment import FactorTable
from pgtrial.knobs.values import value_text

MOST_COMBINATIONS = 64
_LONGEST_NAME = 63  # a run's folder carries it


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """One level of every factor; ``settings`` are knob, setting and value, in the order of the factors."""

    name: str
    settings: tuple[tuple[str, str, str], ...]


def combine_factors(factors: Mapping[str, FactorTable]) -> tuple[Combination, ...]:
    """Every combination; the first has the first level of every factor, the last factor varies fastest.

    A name is "shared_buffers=1GB,work_mem=64MB", or only the levels ("1GB,64MB") or a number ("combination-7")
    where that would be too long for a folder's name. SpecError for more than 64 combinations.
    """
    if count_combinations(factors) > MOST_COMBINATIONS:
        raise SpecError(f"the factors make {count_combinations(factors)} combinations, more than {MOST_COMBINATIONS}")
    chosen = list(
        itertools.product(*([(name, value_text(level)) for level in f.levels] for name, f in factors.items()))
    )
    names = _fitting_names([[(_portable(name), _portable(text)) for name, text in levels] for levels in chosen])
    return tuple(
        Combination(
            name=name,
            settings=tuple((factors[factor].knob, factors[factor].setting or factor, text) for factor, text in levels),
        )
        for name, levels in zip(names, chosen, strict=True)
    )


def count_combinations(factors: Mapping[str, FactorTable]) -> int:
    count = 1
    for factor in factors.values():
        count *= len(factor.levels)
    return count


def _fitting_names(combinations: list[list[tuple[str, str]]]) -> list[str]:
    full = [",".join(f"{factor}={level}" for factor, level in levels) for levels in combinations]
    short = [",".join(level for _, level in levels) for levels in combinations]
    for names in (full, short):
        # Compared without case: a folder's name must not depend on it.
        if max(map(len, names)) <= _LONGEST_NAME and len({name.lower() for name in names}) == len(names):
            return names
    return [f"combination-{number}" for number in range(1, len(combinations) + 1)]


def _portable(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", text) or "empty"
