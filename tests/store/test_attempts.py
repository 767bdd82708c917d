"""Attempts at a claim in the state directory: who counts, also where several begin at once."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pgtrial.store.attempts import (
    ATTEMPTS,
    Claim,
    count_attempts,
    first_attempt,
    note_attempt,
    note_runs,
    runs_noted,
    withdraw_attempt,
)
from pgtrial.store.journal_file import VARIABLE, make_state_directory


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    return tmp_path / "state"


A, B = (Claim(test=f"test {name}", words=name) for name in "ab")


def note(claim: Claim, t: float) -> int | None:
    return note_attempt(claim, digest="d", folder=Path("/f"), t=t)


def note_as_before(words: str, t: float) -> None:
    """As versions before rules 15 noted an attempt."""
    path = make_state_directory() / ATTEMPTS
    with path.open("a") as file:
        file.write(json.dumps({"t": t, "claim": words, "digest": "d", "folder": "/f", "before": 0}) + "\n")
    path.chmod(0o600)


def test_of_attempts_that_begin_together_each_has_a_number_of_its_own() -> None:
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda t: note(A, float(t)), range(40)))

    assert sorted(number for number in numbers if number is not None) == list(range(40))


def test_one_that_was_withdrawn_before_its_first_run_does_not_count() -> None:
    assert note(A, 1.5) == 0
    withdraw_attempt(1.5)

    assert count_attempts(A) == 0
    assert note(A, 2.5) == 0
    assert note(A, 3.5) == 1


def test_attempts_of_one_list_know_when_the_first_was_made() -> None:
    assert first_attempt(A) is None
    note(B, 0.5)
    for t in (2.5, 1.5, 3.5):  # the second was added from another machine's list
        note(A, t)
    withdraw_attempt(1.5)

    assert first_attempt(A) == 1.5


def test_a_line_that_was_cut_off_takes_no_other_one_with_it(state: Path) -> None:
    assert note(A, 1.5) == 0
    with (state / ATTEMPTS).open("a") as file:
        file.write('{"claim": "a", "t": 2.')

    assert note(A, 3.5) == 1
    assert count_attempts(A) == 2


def test_counting_writes_nothing(state: Path) -> None:
    assert count_attempts(A) == 0
    assert not state.exists()


def test_a_list_that_others_may_write_counts_nothing_and_gets_no_number(state: Path) -> None:
    note(A, 1.5)
    (state / ATTEMPTS).chmod(0o660)

    assert count_attempts(A) == 0
    assert note(A, 2.5) is None
    assert len((state / ATTEMPTS).read_text().splitlines()) == 1


def test_lines_of_other_kinds_count_for_nothing(state: Path) -> None:
    note(A, 1.5)
    path = state / ATTEMPTS
    others = ('{"withdrawn": [1.5]}', '{"withdrawn": "1.5"}', '{"claim": "a", "t": []}', '{"claim": ["a"]}')
    path.write_text(path.read_text() + "\n".join(others))

    assert count_attempts(A) == 1


def test_the_runs_of_an_attempt_are_the_most_that_were_noted_and_no_attempts() -> None:
    note(A, 1.5)
    for runs in (1, 3, 2):
        note_runs(1.5, runs)
    note_runs(2.5, 9)

    assert runs_noted(1.5) == 3
    assert runs_noted(3.5) == 0
    assert count_attempts(A) == 1


def test_one_test_in_other_words_is_another_attempt() -> None:
    other = Claim(test=A.test, words="a, in other words")

    assert [note(A, 1.5), note(other, 2.5), note(B, 3.5), note(A, 4.5)] == [0, 1, 0, 2]
    assert count_attempts(other) == 3
    assert first_attempt(other) == 1.5


def test_attempts_that_older_versions_noted_count_with_all_that_were_in_the_same_words() -> None:
    note_as_before("a", 1.5)
    note_as_before("other", 2.5)
    note_as_before("other", 3.5)
    other = Claim(test=A.test, words="other")

    assert [count_attempts(A), count_attempts(other), count_attempts(B)] == [1, 2, 0]
    assert note(other, 4.5) == 2
    # From now on it is known that both are in words for one test.
    assert note(A, 5.5) == 4
    assert first_attempt(A) == first_attempt(other) == 1.5


def test_older_versions_know_an_attempt_by_its_words(state: Path) -> None:
    note(A, 1.5)

    assert json.loads((state / ATTEMPTS).read_text())["claim"] == A.words
