"""The load levels of a run, with arrival rates where the loop is open; and how scenarios divide the clients."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from pgtrial.errors import SpecError
from pgtrial.experiment_file.workload_table import WorkloadTable
from pgtrial.knobs.workload import WORKLOAD, own_clients
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel


def load_levels(workload: WorkloadTable) -> tuple[LoadLevel, ...]:
    """Every load level in the order of the file.

    With rates, a single number of clients (or a single rate) holds for all levels; two lists are paired. SpecError if
    their lengths differ.
    """
    clients = workload.client_levels
    rates = workload.rate_levels
    count = max(len(clients), len(rates))
    if {len(clients), len(rates)} - {1, count}:
        raise SpecError(f"clients has {len(clients)} levels, rate has {len(rates)}; they must match")
    return tuple(
        LoadLevel(index=index, clients=clients[index % len(clients)], rate=rates[index % len(rates)])
        for index in range(count)
    )


def level_of(arm: Arm, level: LoadLevel) -> LoadLevel:
    """A load level as an arm has it, which may have other clients."""
    clients = own_clients(arm.knobs.get(WORKLOAD, {}))
    return replace(level, clients=level.clients if clients is None else clients, by_arm=None)


def over_arms(arms: Iterable[Arm], level: LoadLevel) -> LoadLevel:
    """A load level as several arms have it, which may have different clients."""
    clients = [level_of(arm, level).clients for arm in arms]
    fewest, most = min(clients, default=level.clients), max(clients, default=level.clients)
    return replace(level, clients=fewest) if fewest == most else replace(level, by_arm=(fewest, most))


def part_of(level: LoadLevel, number: int, *, of: int) -> LoadLevel:
    """The part of a load level that a machine makes, ``number`` 0 to ``of`` - 1: all together make the whole."""
    each, more = divmod(level.clients, of)
    clients = each + (number < more)
    rate = None if level.rate is None else level.rate * clients / level.clients
    return replace(level, clients=clients, rate=rate)


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
