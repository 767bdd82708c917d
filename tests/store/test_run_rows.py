"""How many rows a file of a run may have."""

from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial.errors import StoreError
from pgtrial.model.run import Phase, PhaseName, RunRow, RunState, Slot
from pgtrial.store import layout, parquet
from pgtrial.store.run_rows import most_rows

_SHORT = RunRow(
    id=1,
    slot=Slot(number=1, block=1, position=1, arm="a"),
    attempt=1,
    state=RunState.DONE,
    started=1000.0,
    ended=1e9,
    reason="",
    phases=(
        Phase(name=PhaseName.RESTORE, start=1000.0, end=5000.0),
        Phase(name=PhaseName.START, start=5000.0, end=5002.0),
        Phase(name=PhaseName.MEASURE, start=5002.0, end=5030.0, level=0),
    ),
)
_LONG = replace(_SHORT, phases=(Phase(name=PhaseName.MEASURE, start=5000.0, end=5000.0 + 8 * 3600, level=0),))


def find_most(run: RunRow, name: str) -> int:
    (most,) = most_rows(Path("folder"), [run], name).values()
    return most


def test_a_run_has_so_many_rows_for_each_second_that_something_was_sampled() -> None:
    assert find_most(_SHORT, layout.SAMPLES) == 5_000 * (30 + 10)
    assert find_most(replace(_SHORT, phases=()), layout.TRANSACTIONS) == 1_000 * 10
    backwards = Phase(name=PhaseName.MEASURE, start=9.0, end=1.0, level=0)
    assert find_most(replace(_SHORT, phases=(backwards,)), layout.WAITS) == 5_000 * 10


def test_hours_of_a_large_server_have_room() -> None:
    clients, scenarios, statements, series = 100, 20, 5_000, 3_000

    assert find_most(_LONG, layout.SAMPLES) > 8 * 3600 * series
    assert find_most(_LONG, layout.WAITS) > 8 * 3600 * clients * 10
    assert find_most(_LONG, layout.STATEMENTS) > 8 * 360 * statements
    assert find_most(_LONG, layout.TRANSACTIONS) > 8 * 3600 * scenarios
    assert find_most(_SHORT, layout.STATEMENTS) > (2 + 3) * 100_000


def test_a_file_with_more_rows_is_damage_before_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "samples.parquet"
    with parquet.session() as db:
        parquet.write_query(db, "SELECT range::DOUBLE AS t FROM range(1000)", path)

        assert parquet.source(db, [path], most_rows={path: 1000})
        with pytest.raises(StoreError, match="is damaged: it has 1,000 rows, more than a run as short as this writes"):
            parquet.source(db, [path], most_rows={path: 999})
    with pytest.raises(StoreError, match="it has 1,000 rows"):
        parquet.check_rows([path], {path: 999})


def test_files_share_the_rows_for_which_they_have_no_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.parquet" for number in range(4)]
    with parquet.session() as db:
        for path in paths:
            parquet.write_query(db, "SELECT 1.0 AS value FROM range(200_000)", path)

        assert parquet.source(db, paths[:2])
        with pytest.raises(StoreError, match=r'bytes hold 200,000 values of "value"'):
            parquet.source(db, paths)
