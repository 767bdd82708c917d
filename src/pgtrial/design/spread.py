"""What an experiment may not ask for where its blocks are spread over several hosts."""

from pgtrial.errors import SpecError
from pgtrial.experiment_file.experiment import Experiment


def refuse_spread(experiment: Experiment, *, hosts: int) -> None:
    """SpecError where the experiment cannot be run on so many hosts; meant for whoever hands blocks to them.

    The levels of a rule for stopping are those of independent blocks. Over hosts the observations are the hosts' means,
    which each further block changes, and no levels are known for looks at them.
    """
    if hosts < 2:
        return
    if experiment.design.stop != "never":
        raise SpecError(
            f'stop = "{experiment.design.stop}" in [design] cannot be used with {hosts} hosts: a rule for '
            "stopping looks at blocks, and over hosts it is these that count",
            hint='Set stop = "never" and the number of blocks, or run on one host.',
        )
    if experiment.design.soak is not None:
        raise SpecError(
            f"soak in [design] cannot be used with {hosts} hosts: its windows are of one long load",
            hint="Run the soak on one host, or take soak out.",
        )
