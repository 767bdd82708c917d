"""The hosts of a fleet: of hosts.toml, with every problem of the file at once, or those that the workers of a cluster
offer, by resources that they were started with.

dask worker … --resources "host:db1=1"                  the machine that the worker runs on
dask worker … --resources "host:db2@ssh://me@db2=1"     one that it reaches with its own ssh
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from pgtrial.errors import SpecError, SpecProblem
from pgtrial.experiment_file.load import LARGEST_FILE, explain_syntax, locate_problems
from pgtrial.experiment_file.position import Path as Place
from pgtrial.experiment_file.position import format_path
from pgtrial.experiment_file.values import Host as Address
from pgtrial.fleet.node import TOKEN
from pgtrial.hosts.base import LOCAL
from pgtrial.knobs.values import Table
from pgtrial.model.run import HOST_NAME
from pgtrial.nearest import hint_name
from pgtrial.safe_files import open_file
from pgtrial.safe_text import parse_toml

MOST_HOSTS = 1000
_EVERY = 5.0  # s between two looks at a list
EXAMPLE = '[[host]] with name = "db1" and ssh = "ssh://me@db1"'
OFFER_EXAMPLE = 'dask worker … --no-nanny --nthreads 1 --resources "host:db1=1"'


class FleetHost(Table):
    """One host: the machine that pgtrial runs on, or one that it reaches with the ssh command."""

    name: Annotated[str, Field(pattern=f"^{HOST_NAME}$")] = Field(
        description="Its name in plans, messages and the report."
    )
    ssh: Address | None = Field(
        default=None, description='Its address, as that of [target] in an experiment file: "ssh://me@db1:22".'
    )
    local: Literal[True] | None = Field(default=None, description="true: the machine that pgtrial runs on.")
    work_directory: Annotated[str, Field(pattern=r"^/")] | None = Field(
        default=None, description="Directory there for the data during the runs. Left out: as the experiment file says."
    )

    @model_validator(mode="after")
    def _one_way(self) -> "FleetHost":
        if (self.ssh is None) == (self.local is None):
            raise ValueError('a host is reached by ssh = "ssh://…", or it is local = true')
        return self

    @property
    def address(self) -> str | None:
        """As [target] of an experiment has it: None is this machine."""
        return self.ssh

    @property
    def where(self) -> str:
        """Its name in the journal of host changes."""
        return self.ssh or LOCAL


class Fleet(Table):
    """The whole file."""

    host: Annotated[tuple[FleetHost, ...], Field(min_length=1, max_length=MOST_HOSTS)] = Field(
        description="The hosts, in the order in which they get their first blocks."
    )

    def find(self, name: str) -> FleetHost:
        return next(host for host in self.host if host.name == name)


def read_fleet(path: Path) -> Fleet:
    """The hosts of a file. Raises SpecError with all problems, each with its line."""
    try:
        with open_file(path, follow=True) as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as err:
        raise SpecError(
            f'list of hosts "{path}" cannot be read: {err.strerror}', hint=f"Write a file of {EXAMPLE}."
        ) from err
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        raise SpecError(f'"{path}" is not a text file in UTF-8') from err
    if len(content) > LARGEST_FILE:
        raise SpecError(f'"{path}" is too large for a list of hosts')
    return parse_fleet(text, str(path))


def parse_fleet(text: str, source_name: str) -> Fleet:
    """The same for a text; ``source_name`` stands in the messages."""
    try:
        data = parse_toml(text)
    except ValueError as err:
        raise _refuse(source_name, (explain_syntax(text, err),)) from err
    try:
        fleet = Fleet.model_validate(data)
    except ValidationError as err:
        details = err.errors(include_url=False)
        # Hosts that are wrong are not counted as hosts, which says nothing new.
        details = [one for one in details if one["type"] != "too_short" or len(details) == 1]
        problems = [_word(detail) for detail in details]
        raise _refuse(source_name, locate_problems(text, problems)) from err
    if problems := list(_find_twice(fleet)):
        raise _refuse(source_name, locate_problems(text, problems))
    return fleet


@dataclass(slots=True, kw_only=True)
class HostsList:
    """Hosts, and the file in which they are listed, which may change; without a ``path`` they do not. It is to be
    looked at ``every`` so many seconds. ``scheduler`` is that of the user whose workers offer them, if it is they.
    """

    fleet: Fleet
    path: Path | None = None
    scheduler: str | None = None
    every: float | None = field(default=None, init=False)
    _seen: tuple[int, int] = field(default=(0, 0), init=False)

    def __post_init__(self) -> None:
        self.every = None if self.path is None else _EVERY
        self._seen = self._look()

    def changed(self) -> Fleet | None:
        """Its hosts, if it was changed since it was looked at. Raises SpecError, once, where something is wrong."""
        now = self._look()
        if self.path is None or now == self._seen:
            return None
        self._seen = now
        return read_fleet(self.path)

    def without_doubles(self, new: Sequence[FleetHost], *, known: Sequence[FleetHost]) -> tuple[FleetHost, ...]:
        """Of hosts that are new those that are no known machine under another name: two blocks at a time would disturb
        each other.
        """
        measured = {host.where for host in known}
        return tuple(host for host in new if host.where not in measured)

    def _look(self) -> tuple[int, int]:
        try:
            found = None if self.path is None else self.path.stat()
        except OSError:
            return (0, 0)  # reading it says why
        return (0, 0) if found is None else (found.st_mtime_ns, found.st_size)


def _find_twice(fleet: Fleet) -> Iterator[SpecProblem]:
    """A machine that is there twice would measure two blocks at a time, each in the way of the other."""
    for number, host in enumerate(fleet.host):
        before = fleet.host[:number]
        if any(other.name.lower() == host.name.lower() for other in before):
            yield SpecProblem(
                path=format_path(("host", number, "name")),
                message=f'a host named "{host.name}" is there already',
                hint="Give each host a name of its own.",
            )
        elif any(other.where == host.where for other in before):
            yield SpecProblem(
                path=format_path(("host", number, "ssh" if host.ssh else "local")),
                message=f'"{host.where}" is the address of two hosts',
                hint="Two blocks at a time on one machine would disturb each other: list each machine once.",
            )


def _word(detail: Any) -> SpecProblem:
    place: Place = tuple(detail["loc"])
    key = str(place[-1]) if place else ""
    known = FleetHost.model_fields if place[:1] == ("host",) and len(place) > 1 else Fleet.model_fields
    path, hint = format_path(place), ""
    match detail["type"]:
        case "missing":
            return SpecProblem(path=path, message=f'"{key}" is missing', hint=f"Write {EXAMPLE}.")
        case "extra_forbidden":
            return SpecProblem(path=path, message=f'unrecognized key "{key}"', hint=hint_name(key, known))
        case "string_pattern_mismatch" if key == "name":
            message = f'"{detail["input"]}" is not a name of a host'
            hint = "Write up to 63 letters, digits, dots, hyphens and underscores, a letter or digit first."
        case "string_pattern_mismatch":
            message, hint = f'"{detail["input"]}" is not an absolute path', 'Write the whole path: "/srv/pgtrial".'
        case "value_error":
            # "what is wrong; what to do"
            message, _, advice = str(detail["ctx"]["error"]).partition("; ")
            hint = f"{advice[:1].upper()}{advice[1:]}." if advice else ""
        case "too_short":
            message, hint = "there is no host in it", f"Write {EXAMPLE}."
        case "tuple_type":
            message = '"host" is a list of tables'
            hint = "Each host is a table of its own: [[host]], with two brackets."
        case "literal_error":
            message, hint = f'"{key}" is true or left out', 'For another machine, write ssh = "ssh://me@db1".'
        case _:
            message = re.sub(r"^Input should be", f'"{key}" should be', detail["msg"])
    return SpecProblem(path=path, message=message, hint=hint)


def _refuse(source_name: str, problems: tuple[SpecProblem, ...]) -> SpecError:
    count = "1 error" if len(problems) == 1 else f"{len(problems)} errors"
    return SpecError(f'list of hosts "{source_name}" has {count}', problems=problems, source=source_name)


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
