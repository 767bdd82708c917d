"""Caveats noted while measuring: codes with values, of which the catalogue makes sentences in any language."""

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from pgtrial.findings.catalogue.measured import MEASURED_CAVEATS
from pgtrial.findings.caveat import CaveatFinding, caveat, caveat_in_words, read_noted, said_of
from pgtrial.findings.message import message
from pgtrial.language import find_language, speak
from pgtrial.model.arm import Arm, Role
from pgtrial.model.caveat import Severity
from pgtrial.model.run import LoadLevel, Slot
from pgtrial.store.state import State
from pgtrial.store.transfer import Taken, take_rows

SATURATED = caveat("load-machine-saturated", host="load-1", share=0.97)
AUTOVACUUM = message("silent-autovacuum", seconds=60.0, name="log_autovacuum_min_duration")
LOG = caveat("server-log-silent", silent=(AUTOVACUUM,))
WORDS = "INSERT INTO caveat (run, code, severity, text, hint) VALUES (?, 'load-machine-saturated', 'warning', ?, ?)"
SLOT = Slot(number=1, block=1, position=1, arm="a")


def folder(place: Path, *, is_old: bool = False) -> Path:
    """A result folder with one run that is not done; without the column that older versions have not written."""
    place.mkdir()
    with contextlib.closing(State.create(place)) as state:
        state.set_plan((Arm(name="a", role=Role.CONTROL),), [LoadLevel(index=0, clients=2)], [SLOT])
        state.begin_run(SLOT, 1.0)
    if is_old:
        with contextlib.closing(sqlite3.connect(place / "state.sqlite")) as db, db:
            db.execute("ALTER TABLE caveat DROP COLUMN said")
            db.execute("INSERT INTO caveat VALUES (NULL, 'no-host', 'info', 'It is out of reach.', 'Move.')")
    return place


def in_words(given: CaveatFinding) -> CaveatFinding:
    """As older versions have noted it."""
    return caveat_in_words(given.code, given.severity, given.text, given.hint)


def noted(place: Path) -> list[tuple[int | None, CaveatFinding]]:
    with contextlib.closing(State.open(place)) as state:
        return list(state.caveats())


@pytest.mark.parametrize("given", [SATURATED, LOG, caveat_in_words("x", Severity.INFO, "It is so.", "Do it.")])
def test_a_caveat_is_read_with_its_values_as_it_was_noted(tmp_path: Path, given: CaveatFinding) -> None:
    place = folder(tmp_path / "made")
    with contextlib.closing(State.open(place, write=True)) as state:
        state.add_caveat(given, run=1)

    assert noted(place) == [(1, given)]


def test_its_sentences_stand_in_the_file_in_english_and_are_told_in_the_language_asked_for(tmp_path: Path) -> None:
    place = folder(tmp_path / "made")
    stolen = caveat("cpu-steal", in_runs=message("in-runs", found=1, count=2), share=0.1)
    with contextlib.closing(State.open(place, write=True)) as state, speak(find_language("ru")):
        state.add_caveat(stolen)
    with contextlib.closing(sqlite3.connect(place / "state.sqlite")) as db:
        ((text, said),) = db.execute("SELECT text, said FROM caveat").fetchall()

    ((_, found),) = noted(place)
    with speak(find_language("ru")):
        told = found.text
    assert text == stolen.text
    assert json.loads(said)["values"]["share"] == 0.1
    assert told != text


def test_a_folder_of_an_older_version_keeps_its_words_and_takes_new_caveats(tmp_path: Path) -> None:
    place = folder(tmp_path / "made", is_old=True)
    words = caveat_in_words("no-host", Severity.INFO, "It is out of reach.", "Move.")
    before = noted(place)
    with contextlib.closing(State.open(place, write=True)) as state:
        state.add_caveat(SATURATED)

    assert before == [(None, words)]
    assert noted(place) == [(None, words), (None, SATURATED)]


@pytest.mark.parametrize(("own", "main"), [(False, True), (True, False), (True, True), (False, False)])
def test_caveats_are_taken_between_folders_of_two_versions(tmp_path: Path, own: bool, main: bool) -> None:
    source, target = folder(tmp_path / "own", is_old=own), folder(tmp_path / "main", is_old=main)
    with contextlib.closing(sqlite3.connect(source / "state.sqlite")) as db, db:
        db.execute("INSERT INTO caveat (run, code, severity, text, hint) VALUES (1, 'x', 'info', 'It is so.', '')")
    with contextlib.closing(State.open(source)) as state:
        (run,) = state.runs()

    take_rows(source, target, [Taken(run=run, attempt=2, mark={"host": "h", "run": 1})])

    assert (2, caveat_in_words("x", Severity.INFO, "It is so.")) in noted(target)


def test_what_two_versions_have_noted_is_told_once(tmp_path: Path) -> None:
    place = folder(tmp_path / "made", is_old=True)
    with contextlib.closing(sqlite3.connect(place / "state.sqlite")) as db, db:
        db.executemany(WORDS, [(None, SATURATED.text, SATURATED.hint), (1, SATURATED.text, SATURATED.hint)])
    with contextlib.closing(State.open(place, write=True)) as state:
        state.add_caveat(SATURATED)

    told = [(run, found) for run, found in noted(place) if found.code == SATURATED.code]
    assert told == [(1, in_words(SATURATED)), (None, SATURATED)]


@pytest.mark.parametrize(("own", "main"), [("words", "code"), ("code", "words"), ("both", "code"), ("both", "none")])
def test_what_two_versions_have_noted_is_taken_as_told_once(tmp_path: Path, own: str, main: str) -> None:
    source, target = folder(tmp_path / "own"), folder(tmp_path / "main")
    for place, has in ((source, own), (target, main)):
        if has in ("words", "both"):
            with contextlib.closing(sqlite3.connect(place / "state.sqlite")) as db, db:
                db.execute(WORDS, (None, SATURATED.text, SATURATED.hint))
        if has in ("code", "both"):
            with contextlib.closing(State.open(place, write=True)) as state:
                state.add_caveat(SATURATED)

    take_rows(source, target, [])

    assert noted(target) == [(None, SATURATED)]
    with contextlib.closing(sqlite3.connect(target / "state.sqlite")) as db:
        rows = db.execute("SELECT said IS NULL FROM caveat").fetchall()
    assert rows == ([(1,), (0,)] if main == "words" else [(0,)])  # what is there stays


@pytest.mark.parametrize(
    "said",
    [
        None,
        "",
        "no JSON",
        "[]",
        "{}",
        '{"variant": "", "values": {}}',
        '{"variant": "none", "values": {"host": "a", "share": 1}}',
        '{"variant": "", "values": {"host": "a", "share": "many"}}',
        '{"variant": [], "values": 3}',
        f'{{"variant": "", "values": {{"host": "a", "share": 1}}, "more": {"[" * 200}{"]" * 200}}}',
        f'{{"variant": "", "values": {{"host": "a", "share": 1}}, "more": [0{",0" * 300_000}]}}',
    ],
    ids=lambda said: said and said[:60],
)
def test_of_values_that_make_no_sense_the_words_are_left(said: str | None) -> None:
    found = read_noted("load-machine-saturated", Severity.WARNING, "It was busy.", "Add one.", said)

    assert (found.text, found.hint) == ("It was busy.", "Add one.")
    assert said_of(found) is None


def test_every_caveat_that_is_noted_says_when() -> None:
    assert [code for code, entry in MEASURED_CAVEATS.items() if "." not in code and not entry.when] == []
