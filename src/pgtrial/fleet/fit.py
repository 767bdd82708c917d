"""Whether an experiment can be spread over hosts; what speaks against it is said before anything is made."""

from collections.abc import Iterator

from pgtrial.design.plan import Plan
from pgtrial.errors import SpecError, SpecProblem


def refuse_unfit(plan: Plan) -> None:
    """Raise SpecError where something does not go with several hosts; others may join where only one is listed."""
    if problems := tuple(_find(plan)):
        raise SpecError(problems[0].message, problems=problems, hint=problems[0].hint)


def _find(plan: Plan) -> Iterator[SpecProblem]:
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
