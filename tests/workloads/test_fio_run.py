"""What is read of fio's logs, against what fio itself counts."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from pgtrial.model.arm import FileJob
from pgtrial.model.histogram import FINE, bucket_bounds
from pgtrial.model.run import LoadLevel
from pgtrial.stats.quantiles import histogram_quantile, merge
from pgtrial.store.fio_log import HistogramLog, read_histograms
from pgtrial.workloads.fio import HISTOGRAM_INTERVAL, OUTPUT, layout_argv, plan_jobs
from support.programs import needs_program

pytestmark = [
    pytest.mark.fio,
    needs_program("fio", "apt install fio", required_by="PGTRIAL_REQUIRE_FIO"),
]

SECONDS = 2
SIZE = 4 << 20


@pytest.fixture(scope="module", params=["randread", "write"])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """(log, report as fio's json+ has it, stdout, stderr) of two processes."""
    folder = tmp_path_factory.mktemp("fio")
    subprocess.run(["fio", *layout_argv(str(folder / "files"), SIZE)], check=True, timeout=60)
    job = FileJob(
        name="files",
        pattern=request.param,
        size=SIZE,
        block_size=4096,
        direct=False,
        fsync=0,
        engine="psync",
        depth=1,
        share=1.0,
    )
    (generator,) = plan_jobs(
        (job,),
        LoadLevel(index=0, clients=2),
        program=Path("fio"),
        seconds=SECONDS,
        files=str(folder),
        directory=str(folder),
        logged=True,
        seed=1,
    )
    argv = ["--output-format=json+" if word == "--output-format=json" else word for word in generator.argv_tail]
    # Into memory and out of it, it would go as fast as the processors can.
    argv += ["--invalidate=0", "--rate_iops=3000"]
    begun = time.time()
    done = subprocess.run(["fio", *argv], capture_output=True, text=True, timeout=60, check=True, cwd=folder)
    log = HistogramLog(
        level=0,
        scenario="files",
        files=tuple(sorted(folder.glob("fio-level0-files_clat_hist.*.log"))),
        window=(begun, time.time()),
        interval=HISTOGRAM_INTERVAL,
    )
    report = json.loads(done.stderr[done.stderr.index("{\n") :])
    return log, report["jobs"][0]["write" if job.writes else "read"], done.stdout, done.stderr


def test_each_process_has_a_log(ran) -> None:
    assert len(ran[0].files) == 2


def test_the_log_has_what_fio_has_counted_but_for_its_end(ran) -> None:
    log, counted, _, stderr = ran

    found = read_histograms(log)

    assert OUTPUT.parse_summary("", stderr).processed == counted["total_ios"]
    assert 0 <= counted["total_ios"] - found.requests <= found.unlogged
    assert found.requests > 0.5 * counted["total_ios"]


def test_buckets_are_those_of_fio(ran) -> None:
    """json+ names a bucket by a latency inside of it."""
    log, counted, _, _ = ran
    rows = read_histograms(log).rows
    buckets, counts = merge((row.buckets, row.bucket_counts) for row in rows)
    known = {int(latency): count for latency, count in counted["clat_ns"]["bins"].items()}

    for bucket, count in zip(buckets.tolist(), counts.tolist(), strict=True):
        low, high = (round(end * 1e9) for end in bucket_bounds(bucket))
        assert bucket >= FINE
        assert sum(number for latency, number in known.items() if low <= latency < high) >= count


def test_quantiles_agree_with_the_latencies_that_fio_has_counted(ran) -> None:
    """Ours are of all but the end of the load, which may have been faster or slower than the rest of it."""
    log, counted, _, _ = ran
    found = read_histograms(log)
    buckets, counts = merge((row.buckets, row.bucket_counts) for row in found.rows)
    known = {int(latency) * 1e-9: count for latency, count in counted["clat_ns"]["bins"].items()}
    unlogged = counted["total_ios"] - found.requests

    for q in (0.5, 0.95):
        ours, rank = histogram_quantile(buckets, counts, q), q * found.requests
        assert sum(count for latency, count in known.items() if latency <= ours * 1.05) >= rank
        assert sum(count for latency, count in known.items() if latency < ours * 0.95) <= rank + unlogged


def test_times_are_those_of_the_clock(ran) -> None:
    log = ran[0]
    found = read_histograms(log)

    assert found.first is not None
    assert found.last is not None
    assert log.window[0] <= found.first < found.last <= log.window[1]


def test_progress_comes_on_standard_output(ran) -> None:
    told = [progress for line in ran[2].splitlines() if (progress := OUTPUT.parse_progress(line)) is not None]

    assert told
    assert all(progress.tps >= 0 for progress in told)
    assert OUTPUT.find_errors(ran[2], ran[3]) == ()
