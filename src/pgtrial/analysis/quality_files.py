"""Checks of loads on files whose latencies are not the whole time of a request."""

from collections.abc import Callable, Iterator

from pgtrial.analysis.assessment import Assessment
from pgtrial.design.file_jobs import file_jobs
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.model.caveat import Severity
from pgtrial.model.file_job import FileJob

_LATENCY = "fio.latency_"
# What fio's histograms of completions (clat) leave out: stat.c counts flushes apart (add_sync_clat_sample), and the
# submission (slat) is not logged.
_HIDDEN: tuple[tuple[str, Callable[[FileJob], bool]], ...] = (
    ("partial-latency.without-flushes", lambda job: job.hides_flushes),
    ("partial-latency.without-submission", lambda job: job.hides_submission),
)


def check_latencies(assessment: Assessment) -> Iterator[CaveatFinding]:
    """A latency that leaves out what is waited for can be a hundredth of the time that a request takes."""
    evidence = assessment.evidence
    if not evidence.is_on_files:
        return
    jobs = [job for arm in evidence.arms for job in file_jobs(evidence.experiment, arm)]
    is_claimed = (evidence.experiment.hypothesis.metric or "").startswith(_LATENCY)
    for code, is_hidden in _HIDDEN:
        names = dict.fromkeys(job.name for job in jobs if is_hidden(job))
        if names:
            yield caveat(
                code,
                severity=Severity.WARNING if is_claimed else None,
                jobs=tuple(names),
            )
