"""Checks of loads on files whose latencies are not the whole time of a request."""

from collections.abc import Callable, Iterator

from pgtrial.analysis.assessment import Assessment
from pgtrial.analysis.causes.words import join
from pgtrial.analysis.findings import CaveatFinding
from pgtrial.design.file_jobs import file_jobs
from pgtrial.language import mark, tr
from pgtrial.model.caveat import Severity
from pgtrial.model.file_job import FileJob

_LATENCY = "fio.latency_"
# What fio's histograms of completions (clat) leave out: stat.c counts flushes apart (add_sync_clat_sample), and the
# submission (slat) is not logged.
_HIDDEN: tuple[tuple[Callable[[FileJob], bool], str], ...] = (
    (
        lambda job: job.hides_flushes,
        mark(
            "Latencies of {jobs} are those of the writes alone: fio does not count the time of fsync in them, in which "
            "the device is waited for."
        ),
    ),
    (
        lambda job: job.hides_submission,
        mark(
            "Latencies of {jobs} begin when the kernel has taken a request: with a buffered file and this engine it "
            "may do the work, and wait for the device, before."
        ),
    ),
)


def check_latencies(assessment: Assessment) -> Iterator[CaveatFinding]:
    """A latency that leaves out what is waited for can be a hundredth of the time that a request takes."""
    evidence = assessment.evidence
    if not evidence.is_on_files:
        return
    jobs = [job for arm in evidence.arms for job in file_jobs(evidence.experiment, arm)]
    is_claimed = (evidence.experiment.hypothesis.metric or "").startswith(_LATENCY)
    for is_hidden, text in _HIDDEN:
        names = dict.fromkeys(job.name for job in jobs if is_hidden(job))
        if names:
            yield CaveatFinding(
                code="partial-latency",
                severity=Severity.WARNING if is_claimed else Severity.INFO,
                text=tr(text, jobs=join(list(names))),
                hint=tr(
                    "Requests per second have all of it: what is under way at a time (clients, times their depth) "
                    "divided by them is the mean of the whole time."
                ),
            )
