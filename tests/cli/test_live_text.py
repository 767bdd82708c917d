import math
from dataclasses import replace

import pytest

from pgtrial.cli.console import Line, live_lines, progress_line, sparkline
from pgtrial.engine.live.view import ArmView
from pgtrial.model.arm import Role
from support.live import make_estimate, make_view

ESTIMATE = make_estimate(1.95, 1.9, 2.0, blocks=4)


def arm(name: str, role: Role, tps: float, *, is_at_work: bool = False) -> ArmView:
    return ArmView(
        name=name,
        role=role,
        is_at_work=is_at_work,
        runs_done=4,
        tps_now=tps,
        p95_now=12 / tps,
        tps=tuple(tps * (1 + 0.1 * math.sin(i)) for i in range(200)),
        p95=tuple(12 / tps for _ in range(100)),
        waits=(("LWLock:WALWrite", 2.0), ("CPU", 1.0), ("IO:WALSync", 0.6), ("Lock:transactionid", 0.4)),
    )


VIEW = make_view(
    [
        arm("on", Role.CONTROL, 1234.0),
        arm("off", Role.CANDIDATE, 2400.0, is_at_work=True),
        arm("a_placebo_with_a_name_of_thirty_chars", Role.PLACEBO, 1230.0),
    ],
    ESTIMATE,
    run=14,
    block=5,
    spent=12.3,
    length=31.0,
    tps=2400.0,
    remaining=500.0,
    share_done=0.74,
)


def text_of(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def test_progress_is_one_line_for_a_log_file() -> None:
    assert progress_line(VIEW) == (
        "run 14 of 18 · block 5 · arm off · measure 4 clients 12/31 s · 2.4 k tps · 8 min 20 s left"
    )


def test_runs_that_share_their_time_are_told_together() -> None:
    view = replace(VIEW, last_run=15, arms_at_work=("off", "on"), attempt=2)

    assert progress_line(view).startswith("runs 14 to 15 of 18 · block 5 · arms off, on · repeat 1 · measure")


def test_before_and_after_the_runs_the_step_is_told() -> None:
    before = replace(VIEW, run=None, last_run=None, state="preparing", step="loading tables", remaining=None, arms=())

    assert progress_line(before) == "preparing: loading tables"
    assert text_of(live_lines(replace(before, estimate=None), width=80)) == ["preparing: loading tables"]
    assert progress_line(replace(VIEW, state="stopping")).startswith("stopping: ")


@pytest.mark.parametrize("width", range(40, 201, 7))
@pytest.mark.parametrize("ascii_only", [False, True])
def test_everything_fits_into_the_terminal(width: int, ascii_only: bool) -> None:
    lines = text_of(live_lines(VIEW, width=width, ascii_only=ascii_only))
    whole = "\n".join(lines)

    assert max(map(len, lines)) <= width
    for word in (
        "run 14 of 18",
        "8 min 20 s left",
        "1.23 k",
        "2.4 k",
        "5 ms",
        "WALWrite 50 %",
        "+95.0 %",
        "after 4 blocks",
    ):
        assert word in " ".join(whole.split())
    if ascii_only:
        assert whole.isascii()


@pytest.mark.parametrize("width", [80, 120, 200])
def test_lines_of_the_arms_use_the_whole_width(width: int) -> None:
    lines = text_of(live_lines(VIEW, width=width))
    (row,) = (line for line in lines if line.startswith("▸ off"))

    assert len(row) == width


def test_all_arms_share_one_scale() -> None:
    lines = text_of(live_lines(VIEW, width=100))
    on, off = (next(line for line in lines if line[2:].startswith(f"{name} ")) for name in ("on", "off"))

    assert "█" in off
    assert not {"▆", "▇", "█"} & set(on[:60])  # half the throughput is half the height


def test_a_low_terminal_keeps_the_progress_and_the_estimate() -> None:
    lines = text_of(live_lines(VIEW, width=80, height=5))

    assert len(lines) == 5
    assert lines[0].startswith("run 14 of 18")
    assert lines[-2].startswith("so far")
    assert len(live_lines(VIEW, width=80, height=1)) == 1


def test_without_an_interval_none_is_made_up() -> None:
    view = replace(VIEW, estimate=replace(ESTIMATE, low=None, high=None))

    assert "+95.0 % (without an interval yet)" in " ".join(text_of(live_lines(view, width=120)))


def test_what_is_not_known_is_a_dash() -> None:
    bare = replace(VIEW.arms[0], tps_now=None, p95_now=None, p95=(), waits=())
    lines = text_of(live_lines(replace(VIEW, arms=(bare,)), width=80))

    assert any(line.split() == ["on", "–", line.split()[2], "–"] for line in lines if line[2:].startswith("on "))


def test_a_hostile_name_cannot_steer_the_terminal() -> None:
    bad = replace(VIEW.arms[0], name="\x1b[2J\u202eevil", waits=(("\x1b]0;x\x07", 1.0),))
    view = replace(VIEW, arms=(bad,), arms_at_work=("\x1b[2J",))
    preparing = progress_line(replace(view, run=None, step="\x1b[2J"))

    assert all(line.isprintable() for line in (*text_of(live_lines(view, width=80)), progress_line(view), preparing))


@pytest.mark.parametrize(
    ("values", "width", "expected"),
    [
        ([0.0, 1.0, 2.0, 4.0, 7.9, 8.0], 6, "▁▂▃▅██"),
        ([8.0, None, 8.0], 3, "█ █"),
        ([8.0], 3, "█  "),
        ([1.0, 8.0, 8.0], 2, "██"),
        ([], 2, "  "),
        ([8.0], 0, ""),
    ],
)
def test_a_sparkline_begins_at_zero(values: list[float | None], width: int, expected: str) -> None:
    assert sparkline(values, width=width, top=8.0) == expected


def test_a_sparkline_of_nothing_but_zeros_is_blank() -> None:
    assert sparkline([0.0, 0.0], width=3, top=0.0) == "   "
