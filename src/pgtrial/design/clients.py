"""Split a number of clients over scenarios so that the parts add up to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pgtrial.errors import SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioShare:
    """Either a share, relative to the other shares, or a constant number of sessions; neither is a share of 1."""

    name: str
    share: float | None = None
    sessions: int | None = None


def split_clients(total: int, scenarios: Sequence[ScenarioShare]) -> dict[str, int]:
    """Clients of each scenario, in the order given.

    The scenarios with a share divide ``total`` exactly, each getting at least one; constant sessions come on top.
    Every client goes where the most is missing, which is the method of largest remainders (Hamilton) with a floor of
    one. SpecError when ``total`` is smaller than the number of scenarios with a share.
    """
    shares = {s.name: Fraction(1 if s.share is None else s.share) for s in scenarios if s.sessions is None}
    if shares and total < len(shares):
        raise SpecError(
            f"{total} clients are too few for {len(shares)} scenarios",
            detail="Each scenario with a share needs at least one client.",
        )
    whole = sum(shares.values())
    missing = {name: total * share / whole - 1 for name, share in shares.items()}
    split = dict.fromkeys(shares, 1)
    for _ in range(total - len(shares) if shares else 0):
        neediest = max(missing, key=missing.__getitem__)  # the first of equals
        split[neediest] += 1
        missing[neediest] -= 1
    return {s.name: split[s.name] if s.sessions is None else s.sessions for s in scenarios}
