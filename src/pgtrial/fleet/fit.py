"""Whether an experiment can be spread over hosts; what speaks against it is said before anything is made."""

from collections.abc import Iterator

from pgtrial.design.plan import Plan
from pgtrial.errors import SpecError, SpecProblem


def refuse_unfit(plan: Plan) -> None:
    """Raise SpecError with everything that does not go with several hosts."""
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
    if experiment.target.host is not None:
        yield SpecProblem(
            path="target.host",
            message="the file names a host, and --fleet names others",
            hint="Leave host out of [target]; put it into the list of hosts.",
        )
    if experiment.design.soak is not None:
        yield SpecProblem(
            path="design.soak",
            message="the windows of a soak are of one server, and cannot go to several hosts",
            hint="Leave out --fleet.",
        )
    if experiment.design.stop != "never":
        yield SpecProblem(
            path="design.stop",
            message="a rule for stopping looks at blocks in their order, which hosts do not keep",
            hint='Write stop = "never" and a number of blocks, or leave out --fleet.',
        )
