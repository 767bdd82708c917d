import json
from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial.errors import PreflightError
from pgtrial.hosts.local import LocalHost
from pgtrial.model.arm import FileJob
from pgtrial.model.histogram import FINE, bucket_bounds
from pgtrial.model.run import LoadLevel
from pgtrial.workloads.fio import OUTPUT, find_fio, layout_argv, plan_jobs, trial_argv

JOB = FileJob(
    name="files",
    pattern="randread",
    size=100 * 8192 + 100,
    block_size=8192,
    direct=False,
    fsync=0,
    engine="psync",
    depth=1,
    share=1.0,
)


def plan(*jobs: FileJob, clients: int = 1, logged: bool = True, seed: int = 1):
    return plan_jobs(
        jobs or (JOB,),
        LoadLevel(index=0, clients=clients),
        program=Path("fio"),
        seconds=11,
        files="/data",
        directory="/load",
        logged=logged,
        seed=seed,
    )


def options(argv: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, _, value in (word.partition("=") for word in argv)}


def test_processes_share_the_file_in_equal_parts_of_whole_blocks() -> None:
    (generator,) = plan(clients=3)
    found = options(generator.argv_tail)

    assert found["--numjobs"] == "3"
    assert found["--size"] == found["--offset_increment"] == str(33 * 8192)
    assert 3 * int(found["--size"]) <= JOB.size


def test_the_load_goes_on_longer_than_it_is_measured() -> None:
    (generator,) = plan()

    assert options(generator.argv_tail)["--runtime"] == "12"


def test_only_what_is_measured_is_logged() -> None:
    (measured,), (warming,) = plan(), plan(logged=False)

    assert options(measured.argv_tail)["--write_hist_log"] == measured.log_prefix == "fio-level0-files"
    assert options(measured.argv_tail)["--log_unix_epoch"] == "1"
    assert not [word for word in warming.argv_tail if "log" in word]
    assert warming.log_prefix is None


def test_the_state_of_the_page_cache_is_left_to_the_experiment() -> None:
    (generator,) = plan()

    assert options(generator.argv_tail)["--invalidate"] == "0"


def test_a_job_that_reads_cannot_write_by_mistake() -> None:
    (reading,), (writing,) = plan(), plan(replace(JOB, pattern="write", fsync=3))

    assert "--readonly" in reading.argv_tail
    assert "--readonly" not in writing.argv_tail
    assert options(writing.argv_tail)["--fsync"] == "3"


def test_clients_are_divided_by_the_shares_of_the_jobs() -> None:
    found = plan(replace(JOB, name="a", share=3.0), replace(JOB, name="b", share=1.0), clients=8)

    assert [(each.scenario_names, each.clients) for each in found] == [(("a",), 6), (("b",), 2)]


def test_jobs_and_blocks_have_random_numbers_of_their_own_that_repeat() -> None:
    def seeds(seed: int) -> list[str]:
        return [
            options(each.argv_tail)["--randseed"]
            for each in plan(replace(JOB, name="a"), replace(JOB, name="b"), clients=2, seed=seed)
        ]

    assert seeds(1) == seeds(1)
    assert len({*seeds(1), *seeds(2)}) == 4


def test_a_colon_in_a_path_does_not_begin_another_file() -> None:
    assert "--filename=/a\\:b/files" in trial_argv(JOB, "/a:b")
    assert "--filename=/a\\:b" in layout_argv("/a:b", 1)


def make_program(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    program = folder / "fio"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize("told", ["fio-3.33", "fio-3.0", "fio-4.1-12-gabcdef"])
def test_fio_is_found_in_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    make_program(tmp_path / "bin", f"echo {told}", monkeypatch)

    found = find_fio(LocalHost())

    assert (found.path, found.version) == (tmp_path / "bin" / "fio", told.removeprefix("fio-"))


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo fio-2.16", "fio 2.16 in .* is too old"),
        ("echo something else", "does not report its version"),
        ("exit 3", "does not run"),
    ],
)
def test_a_fio_that_will_not_do_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    make_program(tmp_path / "bin", script, monkeypatch)

    with pytest.raises(PreflightError, match=message):
        find_fio(LocalHost())


def test_without_fio_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(PreflightError) as caught:
        find_fio(LocalHost())

    assert caught.value.message == 'program "fio" not found'
    assert "apt install fio" in caught.value.hint


def test_a_job_that_works_once_ends_by_itself_and_tells_all_its_latencies() -> None:
    (again,), (once,) = plan(), plan(replace(JOB, once=True))
    done = {"total_ios": 5, "runtime": 400, "clat_ns": {"bins": {"100": 1, "3984": 1, "4128": 3}}}
    report = {"timestamp_ms": 1_800_000_000_500, "jobs": [{"write": done, "read": {}}]}

    summary = OUTPUT.parse_summary("", json.dumps(report, indent=1))

    assert "--time_based=1" in again.argv_tail
    assert "--time_based=1" not in once.argv_tail
    assert "--output-format=json+" in once.argv_tail
    assert summary.processed == 5
    assert summary.work is not None
    assert (summary.work.started, summary.work.ended) == pytest.approx((1_800_000_000.1, 1_800_000_000.5))
    assert summary.work.latencies == {FINE + 100: 1, FINE + 6 * 64 + 60: 1, FINE + 7 * 64: 3}
    for bucket, latency in zip(summary.work.latencies, (100, 3984, 4128), strict=True):
        low, high = bucket_bounds(bucket)
        assert low <= latency * 1e-9 < high


def test_blocks_repeat_only_where_the_job_says_so() -> None:
    (once,), (repeated,) = plan(), plan(replace(JOB, may_repeat=True))

    assert "--norandommap=1" not in once.argv_tail
    assert "--norandommap=1" in repeated.argv_tail
