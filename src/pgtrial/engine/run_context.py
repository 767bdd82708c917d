"""What all runs of an experiment have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pgtrial.engine.loads.base import Load
from pgtrial.engine.loads.machines import LoadMachine
from pgtrial.experiment_file.workload_table import WorkloadTable
from pgtrial.hosts.base import Host
from pgtrial.model.load_sessions import beginning_of_names
from pgtrial.model.run import LoadLevel
from pgtrial.postgres.settings import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The load, and what is remembered of the target."""

    workload: WorkloadTable
    load: Load
    levels: tuple[LoadLevel, ...]
    seed: int
    client_host: Host  # where the load generator runs: this machine
    baseline: Mapping[str, Setting]  # the control's settings, for the record of changes
    mark: str  # in the environment of every process of the experiment
    machine: str  # from which the load comes
    sysctls: tuple[str, ...]  # kernel settings that some arm sets
    restore: Literal["each-run", "each-block", "never"]
    machines: tuple[LoadMachine, ...] = ()  # from which the load comes, if not from this one
    watches_pages: bool = False  # some arm sets which pages memory is made of

    @property
    def measured_time(self) -> float:
        """Measured seconds of one run."""
        return len(self.levels) * self.workload.duration

    def beginning_of_names(self, arm: str) -> str:
        """How the names of the sessions of an arm's load begin on the server."""
        return beginning_of_names(self.machine, self.mark, arm)
