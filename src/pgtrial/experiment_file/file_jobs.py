"""The jobs of a load on files as an arm has them: what the jobs say, and what the arm's table fio says for all."""

from collections.abc import Mapping

from pgtrial.experiment_file.experiment import WorkloadTable
from pgtrial.knobs.fio import DEFAULT_BLOCK_SIZE, DEFAULT_ENGINE, FILES, FileJobTable, FileWork
from pgtrial.knobs.values import value_text
from pgtrial.model.file_job import FileJob
from pgtrial.units import parse_bytes

WORK = tuple(FileWork.model_fields)
_DEFAULTS = {"block_size": DEFAULT_BLOCK_SIZE, "direct": "off", "fsync": "0", "engine": DEFAULT_ENGINE, "depth": "1"}


def job_tables(workload: WorkloadTable) -> tuple[FileJobTable, ...]:
    """The jobs of the file; where it has none, one that says nothing by itself."""
    return workload.job or (FileJobTable(name=FILES),)


def work_of(job: FileJobTable, common: Mapping[str, str]) -> dict[str, str]:
    """What a job does, as texts; ``common`` is the arm's table fio. What neither says has its default, or is missing.

    A table fio holds for all jobs; the file's check sees to it that no job says the same.
    """
    own = {key: value_text(value) for key in WORK if (value := getattr(job, key)) is not None}
    return {**_DEFAULTS, **own, **{key: value for key, value in common.items() if key in WORK}}


def resolve_jobs(workload: WorkloadTable, common: Mapping[str, str]) -> tuple[FileJob, ...]:
    """The jobs of an arm of a checked experiment."""
    return tuple(_resolve(job, work_of(job, common)) for job in job_tables(workload))


def _resolve(job: FileJobTable, work: Mapping[str, str]) -> FileJob:
    return FileJob(
        name=job.name,
        pattern=work["pattern"],
        size=int(parse_bytes(work["size"])),
        block_size=int(parse_bytes(work["block_size"])),
        direct=work["direct"] == "on",
        fsync=int(work["fsync"]),
        engine=work["engine"],
        depth=int(work["depth"]),
        share=job.share or 1.0,
    )
