"""Whether an experiment can be spread over hosts; what speaks against it is said before anything is made."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgtrial.design.methods import judge_methods
from pgtrial.design.plan import Plan
from pgtrial.errors import PreflightError, SpecError, SpecProblem
from pgtrial.experiment_file.crosscheck import crosscheck
from pgtrial.experiment_file.load import Place
from pgtrial.fleet.hosts_file import FleetHost, HostsList

_MOST_NAMED = 4  # hosts in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """Hosts for which an experiment is checked alike, by ``names`` in a list, and the ``place`` of the first."""

    names: str
    place: Place


def places_of(hosts: HostsList) -> tuple[Alike, ...]:
    """For what places an experiment is checked, those that allow less first: what is valid there is so everywhere.

    A check does not depend on which address a host has, but on whether it has one.
    """
    is_here = hosts.scheduler is None
    over_ssh = [host for host in hosts.fleet.host if host.address is not None]
    local = [host for host in hosts.fleet.host if host.address is None]
    return tuple(
        Alike(names=_name(alike), place=Place(host=alike[0].address, is_here=is_here))
        for alike in (over_ssh, local)
        if alike
    )


def _name(hosts: Sequence[FleetHost]) -> str:
    names = [host.name for host in hosts]
    more = len(names) - _MOST_NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_MOST_NAMED])} and {more} more"


def refuse_host(plan: Plan, host: FleetHost) -> None:
    """Raise PreflightError where a host cannot run a recorded plan: it may have joined after what was there then was
    checked.
    """
    experiment = Place(host=host.address).put(plan.experiment)
    for _, message, hint in crosscheck(experiment, None):
        raise PreflightError(message, hint=hint)
    judgements = judge_methods(experiment, plan.arms, plan.levels, None)
    for one in judgements:
        if one.method == plan.method.method and not one.valid:
            raise PreflightError(
                f'method "{one.method}" is not valid there: {"; ".join(one.reasons)}',
                hint="The experiment goes on with hosts where it is.",
            )


def refuse_unfit(plan: Plan) -> None:
    """Raise SpecError where something does not go with several hosts; others may join where only one is listed."""
    if problems := tuple(find_unfit(plan)):
        raise SpecError(problems[0].message, problems=problems, hint=problems[0].hint)


def find_unfit(plan: Plan) -> Iterator[SpecProblem]:
    """What does not go with several hosts, whichever they are."""
    experiment = plan.experiment
    if experiment.target.kind == "server":
        yield SpecProblem(
            path="target.kind",
            message="an existing server is one machine's, and its blocks cannot go to several hosts",
            hint='Use kind = "throwaway", or leave out --fleet.',
        )
    if experiment.limits is not None and experiment.limits.prove:
        yield SpecProblem(
            path="limits.prove",
            message="what limits an arm is proved on one machine, not on several hosts",
            hint="Remove it from [limits], or leave out --fleet.",
        )
    if experiment.load is not None:
        yield SpecProblem(
            path="load.hosts",
            message="the load of each host of a fleet is made on this machine",
            hint="Remove [load], or leave out --fleet.",
        )
    if experiment.target.host is not None:
        yield SpecProblem(
            path="target.host",
            message="the file names a host, and --fleet names others",
            hint="Leave host out of [target]; put it into the list of hosts.",
        )
    if experiment.design.stop != "never":
        # The levels of such a rule are those of independent blocks. Over hosts the observations are the hosts' means,
        # which each further block changes, and no levels are known for looks at them.
        yield SpecProblem(
            path="design.stop",
            message=f'stop = "{experiment.design.stop}" looks at blocks, and over several hosts it is these that count',
            hint='Set stop = "never" and the number of blocks, or leave out --fleet.',
        )
    if experiment.design.soak is not None:
        yield SpecProblem(
            path="design.soak",
            message="the windows of a soak are of one long load, which cannot go to several hosts",
            hint="Remove soak, or leave out --fleet.",
        )
