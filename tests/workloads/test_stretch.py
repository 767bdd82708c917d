"""Pauses of a script made longer, by rewriting the script."""

import pytest

from pgtrial.workloads.stretch import stretch_pauses


@pytest.mark.parametrize(
    ("pause", "expected"),
    [
        (r"\sleep 20 ms", r"\set pgtrial_pause int(20 * 1500.0)"),
        (r"\sleep 3", r"\set pgtrial_pause int(3 * 1500000.0)"),
        (r"  \SLEEP :pause  us ", r"  \set pgtrial_pause int(:pause * 1.5)"),
        (r"\sleep :pause s", r"\set pgtrial_pause int(:pause * 1500000.0)"),
    ],
)
def test_a_pause_is_as_many_times_as_long(pause: str, expected: str) -> None:
    stretched = stretch_pauses(f"BEGIN;\n{pause}\nEND;\n", 1.5)

    before, first, second, after = stretched.splitlines()
    assert (before, after) == ("BEGIN;", "END;")
    assert first == expected
    assert second.strip() == r"\sleep :pgtrial_pause us"


def test_what_is_no_pause_stays_as_it_is() -> None:
    script = "-- \\sleep 3\nSELECT '\\sleep 3';\n\\set sleep 3\nSELECT pg_sleep(1);\n"

    assert stretch_pauses(script, 1.5) == script
