"""Call fio: one process per job, whose threads divide the job's file equally, with a log of latency histograms.

Sources: fio's HOWTO.rst; the options are those of fio 3.0 and newer.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgtrial.design.levels import ScenarioShare, split_clients
from pgtrial.errors import PreflightError
from pgtrial.hosts.base import Host
from pgtrial.model.arm import FileJob
from pgtrial.model.histogram import fine_bucket_of
from pgtrial.model.run import LoadLevel
from pgtrial.workloads.base import Generator, Output, Progress, Summary, Work, derive_seed

OLDEST = (3, 0)  # times in nanoseconds
HISTOGRAM_INTERVAL = 0.25  # s between two histograms of a thread's log; each costs 15 kB until the end
_SPARE = 1  # s beyond what is measured: the last histogram, which is not complete, is not written
_TRIAL_REQUESTS = 4
_PROGRESS_EVERY = "900ms"
_VERSION = re.compile(r"fio-(?P<version>(?P<major>[0-9]+)\.(?P<minor>[0-9]+)\S*)")
_ENVIRONMENT = {"LC_ALL": "C"}
# What it says at its end goes where it says what is wrong, and its progress to the standard output.
_REPORT = ("--output=/dev/stderr", "--output-format=json")
_WITH_LATENCIES = "--output-format=json+"  # with all of them, by bucket
_SILENT = ("--eta=never", "--output=/dev/null")  # but for what is wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class FioProgram:
    """The program, and its version as it says it ("3.33")."""

    path: Path
    version: str


def find_fio(host: Host) -> FioProgram:
    """The fio of a host's PATH. Raises PreflightError where there is none, or an old one."""
    found = host.ops.which("fio")
    if found is None:
        raise PreflightError(
            'program "fio" not found',
            detail='Loads of kind = "fio" need it, and it is not in PATH.',
            hint='Install it ("apt install fio", "dnf install fio"), or add its directory to PATH.',
        )
    if distrusted := host.ops.distrust(found):
        raise PreflightError(f'"{found}" is not started: {distrusted}')
    try:
        told = host.ops.output([found, "--version"])
    except OSError as err:
        raise PreflightError(f'"{found}" does not run: {err.strerror or err}') from err
    match = _VERSION.search(told)
    if match is None:
        raise PreflightError(f'"{found}" does not report its version', detail=f'It printed "{told.strip()}".')
    if (int(match["major"]), int(match["minor"])) < OLDEST:
        raise PreflightError(
            f'fio {match["version"]} in "{found}" is too old',
            detail=f"Versions before {'.'.join(map(str, OLDEST))} count latencies in whole microseconds only.",
            hint="Install a newer one, or put its directory first in PATH.",
        )
    return FioProgram(path=Path(found), version=match["version"])


def plan_jobs(
    jobs: Sequence[FileJob],
    level: LoadLevel,
    *,
    program: Path,
    seconds: int,
    files: str,
    directory: str,
    logged: bool,
    seed: int,
    groups: tuple[str, ...] = (),
) -> tuple[Generator, ...]:
    """The processes that make a load level together, each for ``seconds`` at least, in ``directory``; their files are
    ``files``/NAME.

    The same ``seed`` gives every job the same random blocks again.
    """
    return tuple(
        Generator(
            program=program,
            argv_tail=(
                *_job(job, clients, files),
                *_REPORT[:1],
                *((_WITH_LATENCIES,) if job.once else (*_REPORT[1:], "--time_based=1")),
                f"--runtime={seconds + _SPARE}",
                f"--randseed={derive_seed(seed, level.index, job.name)}",
                "--eta=always",
                f"--eta-newline={_PROGRESS_EVERY}",
                *_log(_prefix(level, job) if logged else None),
            ),
            environment=_ENVIRONMENT,
            scenario_names=(job.name,),
            clients=clients,
            directory=directory,
            log_prefix=_prefix(level, job) if logged else None,
            groups=groups,
        )
        for job, clients in _shared(jobs, level.clients)
    )


def _shared(jobs: Sequence[FileJob], clients: int) -> list[tuple[FileJob, int]]:
    """Each job with its processes."""
    counts = split_clients(clients, [ScenarioShare(name=job.name, share=job.share, sessions=None) for job in jobs])
    return [(job, counts[job.name]) for job in jobs]


def _prefix(level: LoadLevel, job: FileJob) -> str:
    return f"fio-level{level.index}-{job.name}"


def _job(job: FileJob, clients: int, directory: str) -> list[str]:
    part = job.size // clients // job.block_size * job.block_size
    argv = [
        f"--name={job.name}",
        f"--filename={_escaped(f'{directory}/{job.name}')}",
        f"--rw={job.pattern}",
        f"--bs={job.block_size}",
        f"--size={part}",
        f"--offset_increment={part}",
        f"--numjobs={clients}",
        "--thread=1",  # one process, which is ended and watched as a whole
        "--group_reporting=1",
        f"--ioengine={job.engine}",
        f"--iodepth={job.depth}",
        f"--direct={int(job.direct)}",
        f"--fsync={job.fsync}",
        "--overwrite=1",  # blocks that have been written before, in every run
        "--allow_file_create=0",
        "--invalidate=0",  # the state of the page cache is the experiment's
        "--disk_util=0",
        "--randrepeat=1",
        *(["--norandommap=1"] if job.may_repeat else []),
    ]
    return argv if job.writes else [*argv, "--readonly"]


def _log(prefix: str | None) -> list[str]:
    if prefix is None:
        return []
    return [
        f"--write_hist_log={prefix}",
        f"--log_hist_msec={round(HISTOGRAM_INTERVAL * 1000)}",
        "--log_unix_epoch=1",
    ]


def trial_argv(job: FileJob, directory: str) -> list[str]:
    """Arguments for a few requests of one process of a job."""
    return [*_job(job, 1, directory), f"--number_ios={_TRIAL_REQUESTS}", *_SILENT]


def layout_argv(path: str, size: int) -> list[str]:
    """Arguments that write a file as a whole and wait until it is on disk."""
    return [
        "--name=layout",
        f"--filename={_escaped(path)}",
        f"--size={size}",
        "--rw=write",
        "--bs=1M",
        "--ioengine=psync",
        "--fallocate=none",
        "--end_fsync=1",
        *_SILENT,
    ]


def _escaped(path: str) -> str:
    """The path as fio reads it: to it a colon is the beginning of another file's name."""
    return path.replace("\\", "\\\\").replace(":", "\\:")


# Read what fio says: its progress, its summary as JSON, and its complaints.
#
# Formats: eta.c (display_thread_status) and stat.c (show_thread_status_json) of fio 3.


_FACTORS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
# "Jobs: 1 (f=1): [r(1)][40.0%][r=117MiB/s][r=29.9k IOPS][eta 00m:06s]"
_RATES = re.compile(r"\[(?P<rates>[^\[\]]*) IOPS\]")
_ENDED = "terminating on signal"
_RATE = re.compile(r"[rwt]=(?P<number>[0-9.]+)(?P<unit>[kMG]?)(?=,|$)")


def parse_progress(line: str) -> Progress | None:
    """Requests per second of a line of progress, None if it is another line.

    fio goes back to the beginning of the line (carriage return) to write over what it wrote before.
    """
    match = _RATES.search(line.rstrip("\r").rpartition("\r")[2])
    if match is None:
        return None
    rates = [float(each["number"]) * _FACTORS[each["unit"]] for each in _RATE.finditer(match["rates"])]
    return Progress(t=None, tps=sum(rates), latency=None) if rates else None


def parse_summary(_stdout: str, stderr: str) -> Summary:
    """How many requests were done; None if fio was ended before it could say so."""
    report, _ = _split(stderr)
    if report is None:
        return Summary(processed=None)
    done = [job.get(direction, {}) for job in report.get("jobs", ()) for direction in ("read", "write")]
    return Summary(processed=sum(one.get("total_ios", 0) for one in done), work=_work(report, done))


def _work(report: Mapping[str, Any], done: Sequence[Mapping[str, Any]]) -> Work | None:
    """Of a job that ended by itself, which is the only one that is asked for all of its latencies.

    The report is written as soon as the last thread has ended; its time is in milliseconds.
    """
    one = next((one for one in done if "bins" in one.get("clat_ns", {})), None)
    if one is None:
        return None
    ended = report["timestamp_ms"] / 1000
    latencies: dict[int, int] = {}
    for latency, count in one["clat_ns"]["bins"].items():
        bucket = fine_bucket_of(int(latency))
        latencies[bucket] = latencies.get(bucket, 0) + count
    return Work(started=ended - one["runtime"] / 1000, ended=ended, latencies=latencies)


def find_errors(_stdout: str, stderr: str) -> Sequence[str]:
    """The words of fio, where it says that a job failed or that it was ended, or says nothing at its end."""
    report, others = _split(stderr)
    was_ended = any(_ENDED in line for line in others)  # after which it reports as if nothing had happened
    failed = report is None or was_ended or any(job.get("error", 0) for job in report.get("jobs", ()))
    said = tuple(line.removeprefix("fio: ") for line in others if line.startswith("fio: ")) if failed else ()
    if said or report is None or not failed:
        return said
    codes = [job["error"] for job in report["jobs"] if job.get("error", 0)]
    return (f"a job ended with error {codes[0]}",)


def _split(stderr: str) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """The report, which is the JSON object from a line "{" to a line "}"; and the other lines."""
    lines = stderr.splitlines()
    if "{" not in lines or "}" not in lines:
        return None, tuple(lines)
    begin, end = lines.index("{"), len(lines) - lines[::-1].index("}")
    try:
        report = json.loads("\n".join(lines[begin:end]))
    except ValueError:
        return None, tuple(lines)
    return report, (*lines[:begin], *lines[end:])


OUTPUT = Output(
    program="fio",
    progress="stdout",
    is_prompt=False,
    parse_progress=parse_progress,
    parse_summary=parse_summary,
    find_errors=find_errors,
)
