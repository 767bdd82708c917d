"""What all runs of an experiment have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pgtrial.hosts.base import Host
from pgtrial.model.run import LoadLevel
from pgtrial.postgres.settings import Setting
from pgtrial.spec.experiment import WorkloadTable
from pgtrial.workloads.scenarios import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The load, and what is remembered of the target."""

    workload: WorkloadTable
    scenarios: tuple[Scenario, ...]
    levels: tuple[LoadLevel, ...]
    scripts: Path  # folder with the scenarios' scripts
    seed: int
    client_host: Host  # where the load generator runs: this machine
    baseline: Mapping[str, Setting]  # the control's settings, for the record of changes
    mark: str  # in the environment of every process of the experiment
    sysctls: tuple[str, ...]  # kernel settings that some arm sets
    restore: Literal["each-run", "each-block", "never"]
    cache: Literal["as-is", "cold", "warm"]

    @property
    def measured_time(self) -> float:
        """Measured seconds of one run."""
        return len(self.levels) * self.workload.duration
