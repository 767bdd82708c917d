"""Hosts that the workers of a cluster offer, by resources that they were started with.

dask worker … --resources "host:db1=1"                  the machine that the worker runs on
dask worker … --resources "host:db2@ssh://me@db2=1"     one that it reaches with its own ssh
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from pgtrial.fleet.hosts_file import Fleet, FleetHost
from pgtrial.fleet.node import TOKEN

EXAMPLE = 'dask worker … --no-nanny --nthreads 1 --resources "host:db1=1"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A host that the worker at an ``address`` offers by a ``resource``, of which it has one."""

    host: FleetHost
    address: str
    resource: str


def find_offers(workers: Mapping[str, Mapping[str, object]]) -> tuple[dict[str, Offer], tuple[str, ...]]:
    """The offers by name of the host, in the order of the names, and sentences about those that do not count;
    ``workers`` is what the scheduler knows of each, by its address.
    """
    found: dict[str, Offer] = {}
    told: list[str] = []
    for address, worker in sorted(workers.items()):
        for resource, count in _tokens(worker):
            offer = _read(resource, address)
            if offer is None:
                told.append(f'worker {address} offers "{resource}", which is not host:NAME or host:NAME@ssh://….')
            elif count != 1:
                told.append(f"{offer.host.name} gets no blocks: worker {address} offers it {count:g} times, not once.")
            elif offer.host.local and worker.get("nanny"):
                told.append(
                    f"{offer.host.name} gets no blocks: worker {address}, which runs on it, has a nanny, which would "
                    "be at work while the host is measured. Start it with --no-nanny."
                )
            elif offer.host.name in found:
                told.append(f"{offer.host.name} is offered by two workers; the one at {address} gets no blocks.")
            else:
                found[offer.host.name] = offer
    return dict(sorted(found.items())), tuple(told)


def fleet_of(offers: Sequence[Offer]) -> Fleet:
    """As from a list of hosts; there is one at least."""
    return Fleet(host=tuple(offer.host for offer in offers))


def _tokens(worker: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    resources = worker.get("resources")
    for resource, count in sorted(resources.items()) if isinstance(resources, dict) else ():
        if resource.startswith(TOKEN):
            yield resource, float(count)


def _read(resource: str, address: str) -> Offer | None:
    name, _, ssh = resource.removeprefix(TOKEN).partition("@")
    try:
        host = FleetHost(name=name, ssh=ssh) if ssh else FleetHost(name=name, local=True)
    except ValidationError:
        return None
    return Offer(host=host, address=address, resource=resource)
