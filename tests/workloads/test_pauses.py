"""How long scripts sleep, by what pgbench and PostgreSQL would do with them."""

import math
from pathlib import Path
from typing import Any

import pytest

from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.workloads.pauses import explain_no_pauses, find_pauses, longest_sleeps


def experiment_of(workload: dict[str, Any], *, arm: dict[str, Any] | None = None) -> Experiment:
    return Experiment.model_validate(
        {
            "format": 1,
            "experiment": {"name": "x"},
            "dataset": {"kind": "pgbench", "scale": 1},
            "workload": workload,
            "arms": {"a": {}, "b": arm or {}},
        }
    )


def pauses(
    folder: Path, workload: dict[str, Any], *, arm: dict[str, Any] | None = None
) -> tuple[tuple[str, float], ...]:
    experiment = experiment_of(workload, arm=arm)
    return find_pauses(experiment, resolve_arms(experiment), folder)


@pytest.mark.parametrize(
    ("script", "seconds"),
    [
        ("SELECT 1;\n  \\sleep 4 ms\n\\sleep 500 ms\n", 0.5),
        ("\\sleep 2\n", 2.0),
        ("\\sleep :x us\n", math.inf),
        ("SELECT 1; \\sleep 3 ms\nSELECT pg_sleep(0.001);\n", 0.003),
        ("SELECT 1; \\sleep 3 ms\nSELECT pg_sleep(2);\n", 2.0),
        ("\\sleep 10 \\\n ms\n", 0.01),
        ("-- no \\sleep here\nSELECT '\\sleep';\n", 0.0),
        ("SELECT pg_sleep(0.25);\nSELECT PG_SLEEP(1);\n", 1.0),
        ("SELECT sum(a), pg_catalog.pg_sleep(0.004) FROM t WHERE n <= 5;\n", 0.004),
        (
            "UPDATE t SET n = 1 WHERE pg_sleep(CASE current_setting('a.b') WHEN 'on' THEN 0.02 ELSE 5 END) IS NULL;\n",
            5.0,
        ),
        ("SELECT pg_sleep(:x);\n", math.inf),
        ("SELECT pg_sleep(2 * 30);\n", math.inf),
        ("SELECT pg_sleep(n) FROM t;\n", math.inf),
        ("SELECT pg_sleep(CASE WHEN n > 1 THEN n ELSE 0.001 END) FROM t;\n", math.inf),
        ("SELECT pg_sleep_for('5 ms');\n", math.inf),
        ("SELECT pg_sleep_until('tomorrow 03:00');\n", math.inf),
        ("SELECT pg_sleep(1) FROM (((;\n", math.inf),
        ("(SELECT pg_sleep(0.3));\n", 0.3),
        ("DO $$\nBEGIN\n  PERFORM pg_sleep(0.2);\n  x := 1; -- pg_sleep(7)\nEND $$;\n", 0.2),
        ("DO $$ BEGIN PERFORM pg_catalog.pg_sleep(x); END $$;\n", math.inf),
        ("PREPARE p AS SELECT pg_sleep($1);\nEXECUTE p(0.2);\n", math.inf),
        ("EXPLAIN ANALYZE SELECT pg_sleep( .4 );\n", 0.4),
        ("CALL wait_for(pg_sleep_for('1 s'));\n", math.inf),
        ("SELECT 'pg_sleep(9)', pg_sleep_total FROM t; -- pg_sleep(9)\n", 0.0),
    ],
)
def test_script_sleeps_so_long_at_most(tmp_path: Path, script: str, seconds: float) -> None:
    (tmp_path / "a.sql").write_text(script)

    found = pauses(tmp_path, {"scenario": [{"name": "a", "file": "a.sql"}]})

    assert dict(found) == ({"a.sql": seconds} if seconds else {})


def test_scripts_of_an_arm_are_told_as_well(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1;\n")
    (tmp_path / "b.sql").write_text("SELECT pg_sleep(3);\n")

    found = pauses(
        tmp_path,
        {"scenario": [{"name": "a", "file": "a.sql"}]},
        arm={"workload": {"scripts": {"a": "b.sql"}}},
    )

    assert found == (("b.sql", 3.0),)


def test_a_mix_of_pgtrial_has_none(tmp_path: Path) -> None:
    assert pauses(tmp_path, {"mix": "tpcb-like"}) == ()


SCENARIO = {"scenario": [{"name": "a", "file": "a.sql"}]}


def test_clients_of_an_arm_that_makes_its_pauses_longer_sleep_so_long(tmp_path: Path) -> None:
    """Statements that sleep stay as they are."""
    (tmp_path / "a.sql").write_text("\\sleep 30 ms\nSELECT pg_sleep(0.05);\n")

    assert pauses(tmp_path, SCENARIO, arm={"workload": {"pauses": 1.5}}) == (("a.sql", 0.05),)
    assert dict(pauses(tmp_path, SCENARIO, arm={"workload": {"pauses": 3.0}})) == pytest.approx({"a.sql": 0.09})
    assert pauses(tmp_path, SCENARIO, arm={"workload": {"pauses": 0.1}}) == (("a.sql", 0.05),)


def test_the_longest_sleep_of_each_arm_is_told_with_its_own_scripts_variables_and_factor(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("\\sleep :p ms\n\\sleep 5 ms\nSELECT pg_sleep(7);\n")
    (tmp_path / "b.sql").write_text("\\set q 2\n\\sleep :q s\n\\sleep 1 ms\n")
    (tmp_path / "c.sql").write_text("SELECT 1;\n")
    (tmp_path / "d.sql").write_text("\\sleep :p\n")

    def longest(arm: dict[str, Any]) -> float | None:
        experiment = experiment_of(SCENARIO, arm={"workload": arm})
        return longest_sleeps(experiment, resolve_arms(experiment), tmp_path).get("b")

    assert longest({}) == math.inf  # nobody gives :p
    assert longest({"variables": {"p": 20}}) == 0.02
    assert longest({"variables": {"p": 20}, "pauses": 2.0}) == 0.04
    assert longest({"scripts": {"a": "b.sql"}, "variables": {"q": 3}}) == math.inf  # the script says it anew
    assert longest({"scripts": {"a": "d.sql"}, "variables": {"p": 0}}) == 0
    assert longest({"scripts": {"a": "c.sql"}}) is None


@pytest.mark.parametrize(
    ("workload", "arm", "is_wrong"),
    [
        ({"mix": "simple-update"}, {}, True),
        ({"mix": "simple-update"}, {"scripts": {"simple-update": "sleeps.sql"}}, False),
        ({"mix": "oltp"}, {}, True),
        ({"scenario": [{"name": "a", "file": "a.sql"}]}, {}, True),
        ({"scenario": [{"name": "a", "file": "a.sql"}]}, {"scripts": {"a": "sleeps.sql"}}, False),
        ({"scenario": [{"name": "a", "file": "sleeps.sql"}]}, {}, False),
        ({"scenario": [{"name": "a", "builtin": "select-only"}]}, {}, True),
    ],
)
def test_pauses_of_scripts_that_have_none_are_refused(
    tmp_path: Path, workload: dict[str, Any], arm: dict[str, Any], is_wrong: bool
) -> None:
    (tmp_path / "a.sql").write_text("SELECT pg_sleep(1); -- \\sleep 3\n")
    (tmp_path / "sleeps.sql").write_text("SELECT 1; \\sleep :x\n")
    experiment = experiment_of(workload, arm={"workload": {"pauses": 3.0, **arm}})

    problems = list(explain_no_pauses(experiment, resolve_arms(experiment), tmp_path))

    assert [problem.path for problem in problems] == (["arms.b.workload.pauses"] if is_wrong else [])
    assert all("no \\sleep" in problem.message for problem in problems)


def test_pauses_of_all_arms_need_a_script_of_one_of_them(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1;\n")
    (tmp_path / "b.sql").write_text("\\sleep 1 ms\n")
    given = experiment_of(SCENARIO, arm={"workload": {"scripts": {"a": "b.sql"}}}).model_dump(exclude_unset=True)
    common = {**given, "target": {"workload": {"pauses": 2.0}}}

    for arms, wrong in ((common["arms"], []), ({"a": {}, "b": {}}, ["target.workload.pauses"])):
        experiment = Experiment.model_validate({**common, "arms": arms})
        found = explain_no_pauses(experiment, resolve_arms(experiment), tmp_path)
        assert [problem.path for problem in found] == wrong
