"""The plan of a series: how many experiments of which kind and method, in which order, with which seeds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

# Of ten experiments. A duet feels the neighbour least; runs one after the other feel it so much that few are enough.
SHARES = {"interleaved": 5, "blocks": 1, "duet": 4}
METHODS = tuple(SHARES)
PGBENCH, SYSBENCH, COMMAND = "pgbench", "sysbench", "command"
# sysbench counts all of the time in which it stands still; the other program has a clock that stands still with it.
LOADS = {PGBENCH: SHARES, SYSBENCH: {"interleaved": 1}, COMMAND: {"interleaved": 1}}
_LARGEST_SEED = 2**31


class Kind(StrEnum):
    """``null``: the arms are the same. ``planted``: one of them has a little more work. ``idle`` and ``double`` measure
    what that is in throughput: their second arm has next to no work, or twice of it.
    """

    NULL = "null"
    PLANTED = "planted"
    IDLE = "idle"
    DOUBLE = "double"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One experiment. ``burdened`` is the arm with the planted work, "" for none."""

    number: int
    kind: Kind
    method: str
    burdened: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.number:03d}-{self.kind}-{self.method}"


def draw_plan(*, seed: int, null: int, planted: int, load: str = PGBENCH, method: str = "") -> tuple[Trial, ...]:
    """All experiments in the order in which they are run; by one method alone if it is named.

    Every method has its share of both kinds, each arm bears the planted work equally often within one (but for one
    experiment), and the order of all is random, so that no kind has the better hours of the machine.
    """
    rng = np.random.default_rng(seed)
    shares = {method: 1} if method else LOADS[load]
    cells = [*_cells(Kind.NULL, null, shares), *_cells(Kind.PLANTED, planted, shares)]
    cells += [(kind, method, "treated") for kind in (Kind.IDLE, Kind.DOUBLE) for method in shares]
    order = rng.permutation(len(cells))
    seeds = rng.choice(_LARGEST_SEED, size=len(cells), replace=False)
    return tuple(
        Trial(number=number, kind=cells[which][0], method=cells[which][1], burdened=cells[which][2], seed=int(drawn))
        for number, (which, drawn) in enumerate(zip(order, seeds, strict=True), start=1)
    )


def _cells(kind: Kind, count: int, shares: Mapping[str, int]) -> Iterator[tuple[Kind, str, str]]:
    for method, share in split(count, shares).items():
        for each in range(share):
            burdened = ("treated", "control")[each % 2] if kind is Kind.PLANTED else ""
            yield kind, method, burdened


def split(count: int, shares: Mapping[str, int] = SHARES) -> dict[str, int]:
    """``count`` experiments by method, as the shares say; what does not divide goes to the largest remainders."""
    whole = sum(shares.values())
    given = {method: count * share // whole for method, share in shares.items()}
    by_remainder = sorted(shares, key=lambda method: -(count * shares[method] % whole))
    for method in by_remainder[: count - sum(given.values())]:
        given[method] += 1
    return given
