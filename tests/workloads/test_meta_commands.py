"""Pauses of a script made longer, by rewriting the script."""

import pytest

from pgtrial.workloads.meta_commands import Pause, find_client_pauses, stretch_pauses


def whole(name: str) -> str:
    """What pgbench reads of a variable's number: what stands before its point."""
    return f"(int(:{name}) - CASE WHEN int(:{name}) > :{name} THEN 1 ELSE 0 END)"


@pytest.mark.parametrize(
    ("pause", "expected"),
    [
        (r"\sleep 20 ms", r"\set pgtrial_pause int(20 * 1500.0)"),
        (r"\sleep 20ms", r"\set pgtrial_pause int(20 * 1500.0)"),
        (r"\sleep +20 ms", r"\set pgtrial_pause int(20 * 1500.0)"),
        (r"\sleep 3", r"\set pgtrial_pause int(3 * 1500000.0)"),
        (r"  \SLEEP :pause  us ", rf"  \set pgtrial_pause int({whole('pause')} * 1.5)"),
        (r"\sleep :pause s", rf"\set pgtrial_pause int({whole('pause')} * 1500000.0)"),
        (r"\sleep :pause", rf"\set pgtrial_pause int({whole('pause')} * 1500000.0)"),
        # The name of a variable goes on to the next blank.
        (r"\sleep :delays", rf"\set pgtrial_pause int({whole('delays')} * 1500000.0)"),
        (r"\sleep :pause_ms", rf"\set pgtrial_pause int({whole('pause_ms')} * 1500000.0)"),
        (r"\sleep :us", rf"\set pgtrial_pause int({whole('us')} * 1500000.0)"),
        # Commands may follow a statement, or the half of one, in its line, and go on in the next.
        (r"SELECT 1; \sleep 10 ms", r"SELECT 1; \set pgtrial_pause int(10 * 1500.0)"),
        (r"SELECT 'a;'\sleep 10 ms", r"SELECT 'a;'\set pgtrial_pause int(10 * 1500.0)"),
        ("\\sleep 10 \\\n ms", r"\set pgtrial_pause int(10 * 1500.0)"),
        ("\\sleep\\\n10ms", r"\set pgtrial_pause int(10 * 1500.0)"),
    ],
)
def test_a_pause_is_as_many_times_as_long(pause: str, expected: str) -> None:
    stretched = stretch_pauses(f"BEGIN;\n{pause}\nEND;\n", 1.5)

    before, first, second, after = stretched.splitlines()
    assert (before, after) == ("BEGIN;", "END;")
    assert first == expected
    assert second.strip() == r"\sleep :pgtrial_pause us"


@pytest.mark.parametrize(
    "script",
    [
        "-- \\sleep 3\nSELECT '\\sleep 3';\n\\set sleep 3\nSELECT pg_sleep(1);\n",
        "/* /* a */\n\\sleep 3\n*/ SELECT $q$\n\\sleep 3\n$q$, E'\\'\n\\sleep 3', \"a\n\\sleep 3\" \\; SELECT 1;\n",
        "\\set a 1 + \\\n\\sleep 3\n",
        "\\sleep soon\n\\sleep\n\\sleep 1 2 s\n\\sleep 3 h\n",  # which pgbench refuses, by its own message
    ],
)
def test_what_is_no_pause_stays_as_it_is(script: str) -> None:
    assert stretch_pauses(script, 1.5) == script
    assert list(find_client_pauses(script)) == []


def test_pauses_are_told_as_pgbench_reads_them() -> None:
    script = "SELECT 1; \\sleep 10 \\\n ms\n\\sleep :pause_ms\n\\sleep -3 s\n"

    found = [(pause.length, pause.microseconds) for pause in find_client_pauses(script)]

    assert found == [("10", 1e3), (":pause_ms", 1e6), ("-3", 1e6)]


@pytest.mark.parametrize(
    ("length", "unit", "seconds"),
    [("20", 1e3, 0.02), ("-3", 1e6, 0.0), (":p", 1e3, 0.005), (":fraction", 1e6, 2.0), (":unknown", 1.0, None)],
)
def test_a_pause_is_so_long_where_its_variable_is_known(length: str, unit: float, seconds: float | None) -> None:
    pause = Pause(begin=0, end=1, length=length, microseconds=unit)

    assert pause.seconds({"p": "5", "fraction": "2.75", "word": "x"}) == seconds
