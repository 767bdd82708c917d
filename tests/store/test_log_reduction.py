"""A log that was reduced where it was written is read as the log itself is."""

import ast
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgtrial.errors import WorkloadError
from pgtrial.store import log_reduction, parquet
from pgtrial.store.log_reduction import BAD_LINE, CUT_OFF
from pgtrial.store.pgbench_log import reduction_of
from pgtrial.store.transactions import IngestReport, LevelLog, ingest

START = 1_795_232_577
MICRO = 1_000_000


def log_of(*files: Path, **changes: Any) -> LevelLog:
    log = LevelLog(
        level=0,
        scenarios=("read", "write"),
        files=files,
        window=(START + 0.25, START + 5.75),
        latency_limit=None,
        has_rate=False,
        max_tries=1,
    )
    return replace(log, **changes)


def reduced(log: LevelLog) -> LevelLog:
    """As the machine does it, with what is sent there."""
    files = []
    for path in log.files:
        out = path.with_name(f"{path.name}.sums")
        out.unlink(missing_ok=True)
        log_reduction.main(reduction_of(log), str(path), str(out))
        files.append(out)
    return replace(log, files=tuple(files), reduced=True)


def read(log: LevelLog, out: Path) -> tuple[IngestReport, list[tuple[Any, ...]]]:
    report = ingest([log], out)
    with parquet.session() as db:
        rows = db.execute("SELECT * FROM read_parquet(?) ORDER BY level, second, scenario", [str(out)]).fetchall()
    return report, rows


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[list[str]], dict[str, Any]]:
    has_rate, has_retries = draw(st.booleans()), draw(st.booleans())
    times = st.one_of(st.integers(0, 3), st.integers(0, 9_000_000), st.sampled_from(["failed", "deadlock", "skipped"]))
    ends = st.one_of(st.integers(-2 * MICRO, 8 * MICRO), st.sampled_from([250_000, 249_999, 5_749_999, 5_750_000]))

    def line() -> str:
        time, end = draw(times), START * MICRO + draw(ends)
        fields = [draw(st.integers(0, 3)), 1, time, draw(st.integers(0, 1)), end // MICRO, end % MICRO]
        if has_rate:
            fields.append(draw(st.integers(0, time if isinstance(time, int) else 1000)))
        if has_retries:
            fields.append(draw(st.integers(0, 2)))
        return " ".join(map(str, fields))

    files = [[line() for _ in range(draw(st.integers(0, 12)))] for _ in range(2)]
    return files, {
        "has_rate": has_rate,
        "max_tries": 3 if has_retries else 1,
        "latency_limit": draw(st.sampled_from([None, 0.5])),
        "ahead": draw(st.sampled_from([0.0, 1.25, -0.000_001])),
    }


@given(drawn=logs())
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_log_that_was_reduced_gives_the_same_file(
    tmp_path: Path, drawn: tuple[list[list[str]], dict[str, Any]]
) -> None:
    files, changes = drawn
    log = log_of(*(written(tmp_path / f"log.{number}", *lines) for number, lines in enumerate(files)), **changes)

    assert read(reduced(log), tmp_path / "reduced") == read(log, tmp_path / "whole")


def test_what_a_newer_pgbench_appends_is_read_by_no_one(tmp_path: Path) -> None:
    log = log_of(written(tmp_path / "log.1", f"0 1 1000 0 {START + 1} 5 new 1", f"0 2 1001 1 {START + 2} 5 new 2"))

    assert read(reduced(log), tmp_path / "reduced") == read(log, tmp_path / "whole")


def test_the_sums_are_as_long_as_there_are_buckets_and_not_as_there_are_transactions(tmp_path: Path) -> None:
    lines = [f"0 {n} {1000 + n % 100} 0 {START + 1 + n % 4} {n % MICRO}" for n in range(20_000)]
    log = log_of(written(tmp_path / "log.1", *lines))

    (sums,) = reduced(log).files
    assert len(sums.read_text().splitlines()) == 4 * math.ceil(math.log(1.099) / math.log(1.01))


@pytest.mark.parametrize(
    "line",
    [
        "0 2 1000 2 {start} 5",  # no such script
        "0 2 late 0 {start} 5",
        "0 2 -1 0 {start} 5",
        "0 2 1000 0 {start}",
        "0 2 1000 0 {start} 5 6",
        "0 2  1000 0 {start} 5",
        "0 2 1000 0 {start} x",
        "",
    ],
)
def test_a_line_that_is_none_of_a_log_is_told_by_its_number(tmp_path: Path, line: str) -> None:
    bad = line.format(start=START + 1)
    path = written(tmp_path / "log.1", f"0 1 1000 0 {START + 1} 5", bad)

    done = run_alone(sys.executable, log_of(path), path, tmp_path / "sums")
    assert done.returncode == BAD_LINE
    assert json.loads(done.stderr) == {"number": 2, "line": bad, "why": ""}
    assert not (tmp_path / "sums").exists()


def test_a_line_that_was_cut_off_is_told_to_be(tmp_path: Path) -> None:
    path = tmp_path / "log.1"
    path.write_text(f"0 1 1000 0 {START + 1} 5\n0 2 1000 0 {START + 1} 6")

    done = run_alone(sys.executable, log_of(path), path, tmp_path / "sums")
    assert (done.returncode, json.loads(done.stderr)["why"]) == (BAD_LINE, CUT_OFF)


def run_alone(python: str, log: LevelLog, path: Path, out: Path) -> "subprocess.CompletedProcess[str]":
    """By its text alone, as on another machine."""
    text = Path(log_reduction.__file__).read_text()
    command = [python, "-I", "-c", text, reduction_of(log), str(path), str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_its_text_alone_reduces_a_log(tmp_path: Path) -> None:
    log = log_of(written(tmp_path / "log.1", f"0 1 1000 0 {START + 1} 5", f"0 2 failed 1 {START + 9} 5"))
    (expected,) = reduced(log).files

    done = run_alone(sys.executable, log, log.files[0], tmp_path / "alone")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "alone").read_text() == expected.read_text()


def test_it_is_python_3_8_and_needs_the_standard_library_only() -> None:
    tree = ast.parse(Path(log_reduction.__file__).read_text(), feature_version=(3, 8))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)} | {
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }

    assert imported <= sys.stdlib_module_names


@pytest.mark.parametrize(
    "row",
    [
        "9,9,0,500,1,1000,0,0,0,,1048576,5,5",  # a second that was not measured
        "0,0,2,500,1,1000,0,0,0,,1048576,5,5",  # no such script
        "0,0,0,500,-1,1000,0,0,0,,-1048576,5,5",
        "0,0,0,500,1,1000,0,0,0,,1048577,5,5",
        "0,0,0,-3,1,0,0,0,0,,0,5,5",
        "0,0,0,500,1,1000,0,0,0,,x,5,5",
        "0,0,0,500,1",
        "0,0,0,500,99999999999999999999,1000,0,0,0,,1,5,5",
    ],
)
def test_sums_that_no_log_can_have_are_refused(tmp_path: Path, row: str) -> None:
    good = "0,0,0,500,1,1000,0,0,0,,1048576,5,5"
    log = log_of(written(tmp_path / "log.sums", good, row), reduced=True)

    with pytest.raises(WorkloadError, match=r"not (a )?log line"):
        ingest([log], tmp_path / "out")
