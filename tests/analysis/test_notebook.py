import sys
from pathlib import Path

import numpy as np
import pytest

import pgtrial
from pgtrial.errors import StoreError
from pgtrial.export.notebook import Results, open_results
from pgtrial.findings.findings import Findings
from pgtrial.store import layout
from support import INTERLEAVED, write_result_folder


@pytest.fixture(scope="module")
def results(folder: Path) -> Results:
    return pgtrial.open(folder)


def test_findings_are_those_of_the_report(results: Results, findings: Findings) -> None:
    assert results.findings == findings
    assert results.verdict == findings.hypothesis.verdict == "supported"


def test_tables_hold_what_the_findings_say(results: Results, findings: Findings) -> None:
    effects = results.effects.rows()

    assert [row["ratio"] for row in effects] == [each.ratio for each in (*findings.effects, *findings.placebo)]
    assert [row["run"] for row in results.runs.rows()] == [run.id for run in findings.runs]
    assert len(results.observations) == len(findings.observations)
    assert {row["arm"] for row in results.waits.rows()} == {"on", "off", "placebo"}


def test_samples_are_of_all_runs_that_count_with_the_time_since_measuring_began(results: Results) -> None:
    (row,) = results.sql(
        "SELECT count(DISTINCT run) AS runs, min(seconds) < 0 AS before, count(*) FILTER (arm IS NULL) AS unknown "
        "FROM samples"
    ).rows()

    assert row == {"runs": 18, "before": True, "unknown": 0}
    first = results.sql("SELECT time, seconds FROM samples ORDER BY time LIMIT 1").rows()[0]
    started = next(run.started for run in results.findings.runs)
    assert started is not None
    assert abs(first["time"].timestamp() - started) < 86_400
    assert len(results.sampled_waits) > 0
    assert results.transactions.columns[:5] == ("run", "arm", "block", "level", "second")


def test_transactions_give_the_throughput_of_the_findings(results: Results) -> None:
    by_hand = {
        row["run"]: row["tps"]
        for row in results.sql("SELECT run, sum(count) / 10.0 AS tps FROM transactions GROUP BY run").rows()
    }

    assert by_hand == {
        row["run"]: pytest.approx(row["value"])
        for row in results.sql(
            "SELECT run, value FROM observations "
            "WHERE metric = 'pgbench.tps' AND load_level = 'all' AND scenario IS NULL"
        ).rows()
    }


def test_pandas_gets_numbers_texts_and_times(results: Results) -> None:
    import pandas as pd  # takes long to load, in every process of the tests

    frame = results.runs.to_pandas()

    assert list(frame.columns)[:3] == ["run", "arm", "block"]
    assert isinstance(frame, pd.DataFrame)
    assert frame["tps"].dtype == np.float64
    assert str(frame["started"].dtype).startswith("datetime64")
    assert abs(frame["started"][0].timestamp() - (results.findings.runs[0].started or 0)) < 1e-3


def test_numpy_gets_arrays(results: Results) -> None:
    arrays = results.effects.to_numpy()

    assert set(arrays) == set(results.effects.columns)
    assert len(arrays["ratio"]) == len(results.effects)


def test_arrow_data_are_offered_to_whoever_takes_them(results: Results) -> None:
    assert type(results.samples.__arrow_c_stream__()).__name__ == "PyCapsule"


@pytest.mark.parametrize(
    ("method", "package"), [("to_arrow", "pyarrow"), ("to_polars", "polars"), ("to_pandas", "pandas")]
)
def test_without_a_package_the_error_says_how_to_get_it(
    results: Results, monkeypatch: pytest.MonkeyPatch, method: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(ImportError, match=rf"{method}\(\) needs the package {package}: pip install {package}$"):
        getattr(results.effects, method)()


def test_pyarrow_and_polars_get_the_same(results: Results) -> None:
    pyarrow, polars = pytest.importorskip("pyarrow"), pytest.importorskip("polars")

    assert results.effects.to_arrow().column("ratio").to_pylist() == results.effects.to_numpy()["ratio"].tolist()
    assert pyarrow.table(results.runs).num_rows == len(results.runs)
    assert polars.DataFrame(results.effects).equals(results.effects.to_polars())


def test_a_frame_says_what_it_is(results: Results) -> None:
    assert repr(results.table("arms")).startswith("<Frame of 3 rows: arm varchar, role varchar")


def test_a_table_that_does_not_exist_is_named_with_those_that_do(results: Results) -> None:
    with pytest.raises(KeyError, match=r"no table 'efects'; there are experiment, effects"):
        results.table("efects")


@pytest.mark.parametrize("query", ["SELECT nothing FROM effects", "nonsense", "SELECT * FROM 'x.parquet'"])
def test_a_query_that_is_wrong_is_an_error_of_the_user(results: Results, query: str) -> None:
    with pytest.raises(StoreError, match="cannot read the tables"):
        results.sql(query).rows()


def test_a_folder_in_which_nothing_has_run_has_empty_tables(tmp_path: Path) -> None:
    results = pgtrial.open(str(write_result_folder(tmp_path / "none", runs=0)))

    assert results.verdict == "invalid"
    assert len(results.runs) == len(results.samples) == len(results.statements) == 0
    assert results.samples.columns == ("run", "arm", "block", "time", "seconds", "metric", "object", "value")


def test_runs_of_slices_open_as_well(tmp_path: Path) -> None:
    text = INTERLEAVED.replace("blocks = 6", "blocks = 2")
    results = open_results(write_result_folder(tmp_path / "slices", text=text))

    assert len(results.samples) > 0
    assert {row["arm"] for row in results.effects.rows()} == {"off", "placebo"}


def test_what_is_no_result_folder_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a result folder"):
        pgtrial.open(tmp_path)


def test_a_folder_of_a_newer_pgtrial_is_refused(tmp_path: Path) -> None:
    import sqlite3

    folder = write_result_folder(tmp_path / "newer", runs=0)
    with sqlite3.connect(folder / layout.STATE) as db:
        db.execute("UPDATE meta SET value = '99' WHERE key = 'format'")

    with pytest.raises(StoreError, match="has format 99"):
        pgtrial.open(folder)
