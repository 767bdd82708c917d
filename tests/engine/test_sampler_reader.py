"""What reads files here and on other machines: when, which, and what it needs there."""

import ast
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pgtrial.engine.sampler import reader as sampler_reader
from pgtrial.engine.sampler.reader import Moments, Troubles, open_files, read_files, tick_moments


def test_nothing_is_due_before_the_moment() -> None:
    moments = Moments(start=100.0, interval=1.0)
    due = moments.deadline

    assert 100.0 <= due < 101.0
    assert moments.take(due - 1e-6) == 0
    assert moments.take(due) == 1
    assert moments.take(due) == 0
    assert 101.0 <= moments.deadline < 102.0


def test_moments_that_passed_in_a_pause_are_counted_and_one_reading_stands_for_them() -> None:
    moments = Moments(start=100.0, interval=1.0)

    assert moments.take(106.0) == 6
    assert (moments.taken, moments.skipped) == (1, 5)
    assert 106.0 <= moments.deadline < 107.0


def test_moments_that_passed_while_the_process_was_stopped_are_forgotten() -> None:
    moments = Moments(start=100.0, interval=1.0)
    moments.forget(105.5)

    assert moments.deadline > 105.5
    assert moments.take(105.5) == 0
    assert (moments.taken, moments.skipped) == (0, 0)
    assert moments.take(107.0) in {1, 2}  # the moment of the stratum in which it went on may have been still to come


@given(st.lists(st.floats(0, 7, allow_nan=False), min_size=1, max_size=50), st.sampled_from([0.1, 0.25, 1.0]))
def test_every_stratum_has_one_moment_however_late_it_is_read(pauses: list[float], interval: float) -> None:
    moments = Moments(start=10.0, interval=interval)
    now, passed = 10.0, 0
    for pause in pauses:
        now += pause
        passed += moments.take(now)
        whole = (now - 10.0) / interval
        assert whole - 1 - 1e-6 <= passed <= whole + 1 + 1e-6
        assert moments.deadline > now
        assert moments.taken + moments.skipped == passed


def test_moments_see_every_phase_of_a_rhythm_that_a_fixed_period_locks_with() -> None:
    moments = Moments(start=0.0, interval=0.1)
    seen = 0
    for _ in range(3000):
        moments.take(moments.deadline)
        seen += moments.deadline % 0.2 < 0.02  # a beat of 200 ms that is on for 20

    # Half of the strata hold a beat, and are hit with a probability of 1/5: 300 ± 4 times the root of 240.
    assert abs(seen - 300) < 62


def test_moments_of_what_is_read_once_in_an_interval_keep_near_their_distance() -> None:
    ticks = tick_moments(100.0, interval=1.0)
    found = []
    for _ in range(200):
        found.append(ticks.deadline)
        assert ticks.take(ticks.deadline) == 1

    assert all(101.0 + number <= due < 101.2 + number for number, due in enumerate(found))


def test_open_file_is_read_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "loadavg"
    path.write_text("1")
    (file,), absent = open_files([("proc_loadavg", [str(path)])], {})

    first = file.read()
    path.write_text("22")

    assert (first, file.read(), absent) == ("1", "22", {})


def test_file_longer_than_one_read_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("x" * 200_000)
    (file,), _ = open_files([("proc_stat", [str(tmp_path / "stat")])], {})

    assert file.read() == "x" * 200_000


def test_lines_that_nobody_needs_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "zoneinfo").write_text("Node 0\n  free 3\n      count: 0\nNode 1\n")
    (file,), _ = open_files([("zoneinfo", [str(tmp_path / "zoneinfo")])], {"zoneinfo": ["Node", "  free"]})

    assert file.read() == "Node 0\n  free 3\nNode 1\n"


def test_file_that_is_not_there_is_named_with_the_reason(tmp_path: Path) -> None:
    assert open_files([("a", [f"{tmp_path}/a"])], {}) == ([], {"a": f"{tmp_path}/a: No such file or directory"})


def test_first_path_that_is_there_is_read(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("here")
    (file,), absent = open_files([("source", [f"{tmp_path}/a", f"{tmp_path}/b"])], {})

    assert (file.read(), file.path, absent) == ("here", f"{tmp_path}/b", {})


def test_file_that_cannot_be_read_any_more_is_one_trouble_and_the_others_are_read(tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in "ab"}
    for path in paths.values():
        path.write_text("1")
    files, _ = open_files([(name, [str(path)]) for name, path in paths.items()], {})
    # As what the file belongs to is removed (ENODEV of a control group), so a directory cannot be read (EISDIR).
    sampler_reader.os.dup2(sampler_reader.os.open(tmp_path, sampler_reader.os.O_RDONLY), files[0].fd)
    said: list[str] = []
    troubles = Troubles(said.append)
    readings: list[tuple[float, str, str]] = []

    for _ in range(3):
        read_files(files, lambda *reading: readings.append(reading), troubles)

    assert said == [f"cannot read {paths['a']}: Is a directory"]
    assert [(source, text) for _, source, text in readings] == [("b", "1")] * 3


def test_trouble_that_comes_back_is_reported_again() -> None:
    said: list[str] = []
    troubles = Troubles(said.append)

    for trouble in ("first", "still", "", "again"):
        troubles.note("source", trouble)

    assert said == ["first", "again"]
    assert troubles.current == {"source": "again"}


def test_program_needs_only_python_3_8_and_its_standard_library() -> None:
    text = Path(sampler_reader.__file__).read_text()

    tree = ast.parse(text, feature_version=(3, 8))

    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module).partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= sys.stdlib_module_names
