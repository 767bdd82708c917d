"""The jobs of a load on files, and the state of the page cache, as each arm has them."""

from typing import cast

from pgtrial.design.arms import effective_knobs
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.file_jobs import WORK, resolve_jobs
from pgtrial.knobs.fio import FIO, Cache
from pgtrial.model.arm import Arm
from pgtrial.model.file_job import FileJob

# Knob and key of what jobs and cache are made of.
OF_JOBS = frozenset((FIO, key) for key in (*WORK, "cache"))


def file_jobs(experiment: Experiment, arm: Arm) -> tuple[FileJob, ...]:
    """What the arm's jobs do."""
    return resolve_jobs(experiment.workload, effective_knobs(experiment, arm).get(FIO, {}))


def cache_of(experiment: Experiment, arm: Arm) -> Cache:
    """The state in which the arm's runs begin: the arm's own, or that of all."""
    return cast("Cache", effective_knobs(experiment, arm).get(FIO, {}).get("cache", experiment.design.cache))
