from pathlib import Path
from typing import Any

import pytest

from pgtrial.errors import SpecError
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.workloads.scenarios import scenarios_of, setup_sql


def experiment(workload: dict[str, Any], **dataset: Any) -> Experiment:
    return Experiment.model_validate(
        {
            "format": 1,
            "experiment": {"name": "x"},
            "dataset": {"kind": "pgbench", "scale": 685, **dataset},
            "workload": workload,
            "arms": {"a": {}, "b": {}},
        }
    )


@pytest.mark.parametrize("mix", ["oltp", "olap"])
def test_a_mix_reads_inserts_and_updates_in_the_ratio_seven_two_one(mix: str) -> None:
    scenarios = scenarios_of(experiment({"mix": mix}), Path("nowhere"))

    assert [(s.name, s.share) for s in scenarios] == [("read", 0.7), ("insert", 0.2), ("update", 0.1)]
    assert all(s.script and s.builtin is None and s.sessions is None for s in scenarios)


@pytest.mark.parametrize("mix", ["oltp", "olap"])
def test_the_scripts_of_a_mix_are_told_the_scale(mix: str) -> None:
    for scenario in scenarios_of(experiment({"mix": mix}), Path("nowhere")):
        assert scenario.variables == (("scale", "685"),)


@pytest.mark.parametrize("mix", ["tpcb-like", "simple-update", "select-only"])
def test_a_script_of_pgbench_is_a_mix_of_one(mix: str) -> None:
    (scenario,) = scenarios_of(experiment({"mix": mix}), Path("nowhere"))

    assert (scenario.name, scenario.builtin, scenario.script) == (mix, mix, None)
    assert scenario.variables == (), "pgbench finds the scale itself, and complains about another"


def test_own_scenarios_are_read_from_beside_the_experiment_file(tmp_path: Path) -> None:
    (tmp_path / "orders.sql").write_text("SELECT 'größer';\n", encoding="utf-8")
    tables = [
        {"name": "orders", "file": "orders.sql"},
        {"name": "watch", "builtin": "select-only", "sessions": 2},
    ]

    orders, watch = scenarios_of(experiment({"scenario": tables}), tmp_path)

    assert (orders.script, orders.share, orders.sessions) == ("SELECT 'größer';\n", 1.0, None)
    assert (watch.builtin, watch.share, watch.sessions) == ("select-only", None, 2)


def test_without_tables_of_pgbench_no_scale_is_told(tmp_path: Path) -> None:
    (tmp_path / "own.sql").write_text("SELECT 1;\n")
    tables = [{"name": "own", "file": "own.sql"}]

    (scenario,) = scenarios_of(experiment({"scenario": tables}, kind="sql"), tmp_path)

    assert scenario.variables == ()


def test_every_script_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / "latin1.sql").write_bytes("SELECT 'größer';".encode("latin-1"))
    tables = [{"name": "a", "file": "missing.sql"}, {"name": "b", "file": "latin1.sql"}]

    with pytest.raises(SpecError) as caught:
        scenarios_of(experiment({"scenario": tables}), tmp_path)

    assert [problem.path for problem in caught.value.problems] == [
        "workload.scenario.0.file",
        "workload.scenario.1.file",
    ]
    assert [problem.message for problem in caught.value.problems] == [
        f'cannot read "{tmp_path / "missing.sql"}": No such file or directory',
        f'cannot read "{tmp_path / "latin1.sql"}": it is not UTF-8 text',
    ]


def test_the_own_set_up_comes_before_that_of_the_mix(tmp_path: Path) -> None:
    (tmp_path / "own.sql").write_text("SELECT 1;")

    own, of_mix = setup_sql(experiment({"mix": "oltp"}, setup="own.sql"), tmp_path)

    assert own == ("own.sql", "SELECT 1;")
    assert "ALTER TABLE pgbench_history" in of_mix[1]


def test_scripts_of_pgbench_need_no_set_up(tmp_path: Path) -> None:
    assert setup_sql(experiment({"mix": "tpcb-like"}), tmp_path) == ()


def test_a_set_up_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        setup_sql(experiment({"mix": "oltp"}, setup="missing.sql"), tmp_path)

    assert caught.value.problems[0].path == "dataset.setup"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("--\n-- PostgreSQL database dump\n--\n", "the output of pg_dump"),
        ("\\i tables.sql\n", "a file for psql"),
        ("CREATE TABLE t (a int);\nCOPY t (a) FROM stdin;\n1\n\\.\n", "a file for psql"),
    ],
)
def test_set_up_that_is_for_psql_is_to_be_loaded(tmp_path: Path, text: str, kind: str) -> None:
    (tmp_path / "shop.sql").write_text(text)

    with pytest.raises(SpecError, match=f'"shop.sql" is {kind}') as caught:
        setup_sql(experiment({"mix": "select-only"}, setup="shop.sql"), tmp_path)

    assert 'load = "shop.sql"' in caught.value.problems[0].hint


def test_set_up_for_a_migration_tool_is_not_done_and_undone(tmp_path: Path) -> None:
    (tmp_path / "next.sql").write_text("-- migrate:up\nCREATE TABLE t (a int);\n-- migrate:down\nDROP TABLE t;\n")

    with pytest.raises(SpecError, match=r'cannot execute "next.sql": it is for a migration tool: .* from line 3 on'):
        setup_sql(experiment({"mix": "select-only"}, setup="next.sql"), tmp_path)
