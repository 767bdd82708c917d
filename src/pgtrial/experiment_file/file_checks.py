"""Checks of a load on files: what it needs, what goes together, and what only a load on a server can have."""

from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath

from pgtrial.experiment_file.arms import WORK, Values, all_declared, arm_values, job_tables, work_of
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.position import Found, Path
from pgtrial.experiment_file.workload_table import COMMAND, RampTable
from pgtrial.knobs import KNOBS
from pgtrial.knobs.fio import FIO, FileJobTable
from pgtrial.units import format_bytes, parse_bytes

_NOT_OF_FILES = ("mix", "scenario", "share", "rate", "latency_limit", "protocol", "threads", "max_tries")
_SECTOR = 512  # B; what is read and written past the page cache has to be whole sectors
_NO_SERVER = "A load on files has no server."


def check_file_load(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """What has no meaning without a server, or on another machine."""
    workload, target = experiment.workload, experiment.target
    if workload.kind != FIO:
        return
    if target.kind != "host":
        message = f'kind = "{target.kind}" is a server, and a load on files (fio) has none'
        yield ("target", "kind"), message, 'Remove it, or write kind = "host".'
    if target.host is not None:
        message = "a load on files (fio) is only on the machine that pgtrial runs on"
        yield ("target", "host"), message, "Remove it, and run pgtrial there."
    if target.postgres is not None:
        yield ("target", "postgres"), '"postgres" has no meaning with kind = "fio"', f"{_NO_SERVER} Remove it."
    if "dataset" in experiment.model_fields_set:
        yield ("dataset",), '[dataset] has no meaning with kind = "fio"', "The size of the files is in the table fio."
    for key in _NOT_OF_FILES:
        if key in workload.model_fields_set:
            hint = "Its jobs are [[workload.job]] tables." if key in ("mix", "scenario") else f"{_NO_SERVER} Remove it."
            yield ("workload", key), f'"{key}" has no meaning with kind = "fio"', hint
    for declared in all_declared(experiment):
        knob, hint = KNOBS.get(declared.knob), f"{_NO_SERVER} Remove it."
        if knob is not None and knob.needs_server:
            yield declared.place_of_knob, f'knob "{declared.knob}" has no meaning with kind = "fio"', hint
        elif knob is not None and declared.key in knob.keys_of_server:
            yield declared.path, f'"{declared.key}" has no meaning with kind = "fio"', hint


def check_file_jobs(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """The jobs, as each arm has them."""
    workload = experiment.workload
    if workload.kind != FIO:
        return
    seen: set[str] = set()
    for index, job in enumerate(workload.job):
        if job.name.lower() in seen:
            yield ("workload", "job", index, "name"), f'job name "{job.name}" appears twice', ""
        seen.add(job.name.lower())
    for index, job in enumerate(job_tables(workload)):
        arms = arm_values(experiment)
        yield from _check_presence(arms, job)
        for effective in arms.values():
            yield from _check_job(experiment, effective, job, index)


def _check_presence(arms: Mapping[str, Values], job: FileJobTable) -> Iterator[Found]:
    """What has no default, and some arm does not say."""
    for key, example in (("pattern", 'pattern = "randread"'), ("size", 'size = "200MB"')):
        silent = [arm for arm, effective in arms.items() if getattr(job, key) is None and (FIO, key) not in effective]
        if silent:
            message = f'arm "{silent[0]}" does not say the {key} of job "{job.name}"'
            yield ("workload",), message, f"Add {example} to [target.fio], to its job, or to every arm."


def _check_job(experiment: Experiment, effective: Values, job: FileJobTable, index: int) -> Iterator[Found]:
    clients = _most_clients(experiment)
    common = {key: declared for (knob, key), declared in effective.items() if knob == FIO}
    own: Path = ("workload", "job", index)
    for key in WORK:
        if key in common and key in job.model_fields_set:
            message = f'"{key}" of job "{job.name}" is given twice'
            yield common[key].path, message, "A table fio holds for all jobs. Remove one of the two."
    work = work_of(job, {key: declared.value for key, declared in common.items()})

    def place(key: str) -> Path:
        return common[key].path if key in common else (*own, key) if key in job.model_fields_set else ("workload",)

    block = parse_bytes(work["block_size"])
    if work["direct"] == "on" and block % _SECTOR:
        message = f"a block of {format_bytes(block)} cannot be read past the page cache"
        yield place("block_size"), message, f"With direct = true it is a multiple of {_SECTOR} B."
    if work["engine"] == "psync" and work["depth"] != "1":
        hint = 'Use engine = "libaio" or "io_uring", or more clients.'
        yield place("depth"), "psync has one request under way", hint
    if work["fsync"] != "0" and work.get("pattern") in {"read", "randread"}:
        yield place("fsync"), f'"fsync" has no meaning with pattern = "{work["pattern"]}"', "Remove it."
    if work["norandommap"] == "on" and work.get("pattern") in {"read", "write"}:
        message = f'"norandommap" has no meaning with pattern = "{work["pattern"]}"'
        yield place("norandommap"), message, "Its blocks are not random. Remove it."
    if work["once"] == "on" and len(experiment.workload.job) > 1:
        yield place("once"), '"once" is for a single job', "Several end at different times. Remove it, or the others."
    if "size" in work and parse_bytes(work["size"]) < block * clients:
        blocks = f"blocks of {format_bytes(block)}"
        message = f"a file of {work['size']} is too small for {clients:g} processes with {blocks}"
        yield place("size"), message, "Each process has its own part of the file, a block or more."


def _most_clients(experiment: Experiment) -> float:
    clients = experiment.workload.clients
    if isinstance(clients, RampTable):
        return max(clients.start, clients.stop)
    return max(clients) if isinstance(clients, tuple) else clients


def check_only_files(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """What only a load on files can have."""
    kind = experiment.workload.kind
    if kind == FIO:
        return
    named = "a command" if kind == COMMAND else kind
    hint = 'A load on files has kind = "fio" in [workload]. Remove it, or write that.'
    if experiment.workload.job:
        yield ("workload", "job"), f'"job" has no meaning with kind = "{kind}"', hint
    if experiment.target.kind == "host":
        yield ("target", "kind"), f'kind = "host" has no server, and {named} needs one', hint
    for declared in all_declared(experiment):
        if declared.knob == FIO:
            yield declared.place_of_knob, f'knob "fio" has no meaning with kind = "{kind}"', hint
