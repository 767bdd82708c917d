import pytest

from pgtrial.store.command_line import LineError
from pgtrial.workloads.adapters import pgreplay

FAILED = '2026-11-25 12:46:19.699 UTC,"me","app",27976,"[local]",6b.6d48,4,"SELECT",2026-11-25 12:46:19 UTC,3/85,0,'
FAILED += 'ERROR,22012,"division by zero",,,,,,,,,"psql","client backend",,0\n'
FAILED_LINE = "2026-11-25 12:46:19.699 UTC|me|app|6b06d89b.6d48|ERROR:  division by zero\n"
OTHER_LINE = "2026-11-25 12:46:19.698 UTC|me|app|6b06d89b.6d48|LOG:  statement: select 'ERROR:  '\n"


@pytest.mark.parametrize(
    ("files", "differ"),
    [
        ({"app.csv": FAILED}, 0),
        ({"app.log": OTHER_LINE + FAILED_LINE}, 0),
        ({"app.csv": FAILED * 3}, 2),
        ({}, 1),
    ],
)
def test_what_failed_in_the_original_fails_again(files, differ, tell, clock):
    # pgreplay 1.2.0 of Debian 12, of 447 statements of which one failed.
    (whole,) = tell(pgreplay.translator(files, now=clock), "pgreplay-1.2.0.txt")

    assert (whole.done, whole.failed, whole.mean) == (446, differ, 0.009)
    assert (whole.t, whole.seconds) == (1600000001, 3.448)


def test_its_time_may_have_minutes(captured, clock):
    translate = pgreplay.translator({}, now=clock)
    text = captured("pgreplay-1.2.0.txt").replace("time: 3.448 seconds", "time: 1 hours 1 minutes 0.009 seconds")

    assert '"seconds": 3660.009' in [translate(line) for line in text.splitlines()][-1]


def test_a_replay_that_is_late_is_named(captured):
    translate = pgreplay.translator({})
    late = captured("pgreplay-1.2.0.txt").replace("schedule: 1 seconds", "schedule: 7 seconds")

    with pytest.raises(LineError, match="the replay was up to 7 s behind the log: it did not keep its timing"):
        _ = [translate(line) for line in late.splitlines()]


def test_a_report_that_is_cut_off_is_none():
    with pytest.raises(LineError, match="not whole"):
        pgreplay.translator({})("     over 2    seconds: 0.000%")


def test_it_is_told_that_a_csvlog_is_one():
    assert pgreplay.arrange(["pgreplay", "app.csv"])[:2] == ("pgreplay", "-c")
    assert "-c" not in pgreplay.arrange(["pgreplay", "app.log"])
