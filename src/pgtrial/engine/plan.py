"""What all runs of an experiment have in common."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pgtrial.hosts.base import Host
from pgtrial.model.run import LoadLevel
from pgtrial.model.slice import Slice
from pgtrial.postgres.settings import Setting
from pgtrial.spec.experiment import WorkloadTable
from pgtrial.store.transactions import LevelLog
from pgtrial.workloads.pgbench import Generator, plan_generators
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

    def generators(
        self, level: LoadLevel, *, block: int, seconds: int, log_directory: str | None
    ) -> tuple[Generator, ...]:
        """The load generators of one arm at a level, which are logged for what is measured only.

        The arms of a block see the same random numbers, other blocks see others; and so does what is not measured, the
        warm-up: it must not touch the very rows that are measured next, and so put them into the cache.
        """
        seed = self.seed + block
        return plan_generators(
            self.scenarios,
            level,
            workload=self.workload,
            seconds=seconds,
            cpus=len(os.sched_getaffinity(0)),
            script_directory=str(self.scripts),
            log_directory=log_directory,
            seed=seed if log_directory is not None else -seed,
        )

    def logs(
        self,
        level: LoadLevel,
        generators: Sequence[Generator],
        *,
        window: tuple[float, float],
        slices: tuple[Slice, ...] = (),
    ) -> list[LevelLog]:
        """What generators have written down, of which the ``window`` or the counted part of the ``slices`` counts."""
        prefixes = [Path(generator.log_prefix) for generator in generators if generator.log_prefix is not None]
        return [
            LevelLog(
                level=level.index,
                scenarios=generator.scenario_names,
                files=tuple(sorted(prefix.parent.glob(f"{prefix.name}.*"))),
                window=window,
                latency_limit=self.workload.latency_limit,
                has_rate=level.rate is not None,
                max_tries=self.workload.max_tries,
                slices=slices,
            )
            for generator, prefix in zip(generators, prefixes, strict=True)
        ]

    @property
    def measured_time(self) -> float:
        """Measured seconds of one run."""
        return len(self.levels) * self.workload.duration
