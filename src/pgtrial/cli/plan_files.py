"""What check and plan show about a load on files."""

from collections.abc import Iterator

from pgtrial.cli.checked import Checked
from pgtrial.design.data_size import largest_files
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.model.arm import FileJob, Role
from pgtrial.units import format_bytes

_SYNCS = {"each-run": "before each run", "each-block": "before each block", "never": "before the first run"}


def program_text(checked: Checked) -> str:
    """The load generator, or that this machine has none."""
    if not checked.place.is_here:
        return "none; fio of each host"
    return f"none; fio {checked.fio}" if checked.fio else f"none, and fio is missing: {checked.missing}"


def files_text(checked: Checked) -> str:
    """The files, and how many copies exist."""
    files = largest_files(checked.plan.arms)
    each = ", ".join(f"{name} {format_bytes(size)}" for name, size in files.items())
    places = len({arm.variant for arm in checked.plan.arms})
    return each + (f", in each of {places} places" if places > 1 else "")


def jobs_text(checked: Checked) -> str:
    """What the jobs do; what differs between arms is in the table of settings."""
    arms = [arm.jobs for arm in checked.plan.arms if arm.role is not Role.PLACEBO]
    described = [_job_text([jobs[place] for jobs in arms]) for place in range(len(arms[0]))]
    return "; ".join(described)


def _job_text(jobs: list[FileJob]) -> str:
    """One job, as the arms have it."""
    facts = (
        "/".join(dict.fromkeys(job.pattern for job in jobs)),
        f"blocks of {'/'.join(dict.fromkeys(format_bytes(job.block_size) for job in jobs))}",
        "/".join(dict.fromkeys("blocks may repeat" if job.may_repeat else "" for job in jobs)).strip("/"),
        "/".join(dict.fromkeys("once" if job.once else "" for job in jobs)).strip("/"),
        "/".join(dict.fromkeys("past the page cache" if job.direct else "buffered" for job in jobs)),
        "/".join(dict.fromkeys(f"fsync after {job.fsync} writes" if job.fsync else "" for job in jobs)).strip("/"),
        "/".join(dict.fromkeys(job.engine for job in jobs)),
        "/".join(dict.fromkeys(f"{job.depth} under way" if job.depth > 1 else "" for job in jobs)).strip("/"),
    )
    return f"{jobs[0].name}: {', '.join(fact for fact in facts if fact)}"


def order_text(experiment: Experiment) -> str:
    """Where the random order comes from."""
    if experiment.design.seed is None:
        return "The order is drawn at random when the experiment begins."
    return f"Random order from seed {experiment.design.seed}."


def runs_text(checked: Checked) -> str:
    """How runs start."""
    when = _SYNCS[checked.loaded.experiment.restore]
    return (
        f"{len(checked.plan.slots)} runs. What is still to be written is written {when}. "
        f"{order_text(checked.loaded.experiment)}"
    )


def place_texts(checked: Checked) -> Iterator[str]:
    """Temporary data outside the result folder."""
    size = format_bytes(checked.plan.data_size)
    for variant in dict.fromkeys(arm.variant for arm in checked.plan.arms):
        yield f"Files: below {variant.data or '/var/tmp'}/pgtrial-<random>, {size}, removed at the end."
