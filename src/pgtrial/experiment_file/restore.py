"""When the data are really put back: an existing database never is."""

from typing import Literal

from pgtrial.experiment_file.experiment import Experiment

Restore = Literal["each-run", "each-block", "never"]


def effective_restore(experiment: Experiment) -> Restore:
    """What [design] says, but "never" for an existing database, of which pgtrial has no copy."""
    return "never" if experiment.target.database is not None else experiment.design.restore
