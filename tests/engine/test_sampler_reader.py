"""What reads files here and on other machines: when, which, and what it needs there."""

import ast
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pgtrial.engine.sampler import reader as sampler_reader
from pgtrial.engine.sampler.reader import Ticks, Troubles, open_files, read_files


def test_nothing_is_due_before_the_deadline() -> None:
    ticks = Ticks(start=100.0, interval=1.0)

    assert not ticks.take(99.9)
    assert ticks.take(100.0)
    assert not ticks.take(100.5)
    assert ticks.deadline == 101.0


def test_tick_late_by_more_than_half_an_interval_is_skipped() -> None:
    ticks = Ticks(start=100.0, interval=1.0)

    assert not ticks.take(100.6)
    assert (ticks.taken, ticks.skipped, ticks.deadline) == (0, 1, 101.0)


def test_ticks_that_passed_in_a_pause_are_not_made_up() -> None:
    ticks = Ticks(start=100.0, interval=1.0)
    assert ticks.take(100.0)

    assert ticks.take(105.2)
    assert (ticks.taken, ticks.skipped, ticks.deadline) == (2, 4, 106.0)


@given(st.lists(st.floats(0, 7, allow_nan=False), min_size=1, max_size=50), st.sampled_from([0.1, 0.25, 1.0]))
def test_lateness_never_adds_up(pauses: list[float], interval: float) -> None:
    ticks = Ticks(start=10.0, interval=interval)
    now = 10.0
    for pause in pauses:
        now += pause
        taken = ticks.take(now)
        lateness = now - (ticks.deadline - interval)
        assert not taken or -1e-9 <= lateness <= interval / 2 + 1e-9
        assert ticks.deadline > now - 1e-9
        assert ticks.taken + ticks.skipped == ticks.next


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
