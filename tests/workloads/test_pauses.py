"""How long scripts sleep, by what pgbench and PostgreSQL would do with them."""

import math
from pathlib import Path
from typing import Any

import pytest

from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.workloads.pauses import find_pauses


def pauses(
    folder: Path, workload: dict[str, Any], *, arm: dict[str, Any] | None = None
) -> tuple[tuple[str, float], ...]:
    experiment = Experiment.model_validate(
        {
            "format": 1,
            "experiment": {"name": "x"},
            "dataset": {"kind": "pgbench", "scale": 1},
            "workload": workload,
            "arms": {"a": {}, "b": arm or {}},
        }
    )
    return find_pauses(experiment, resolve_arms(experiment), folder)


@pytest.mark.parametrize(
    ("script", "seconds"),
    [
        ("SELECT 1;\n  \\sleep 4 ms\n\\sleep 500 ms\n", 0.5),
        ("\\sleep 2\n", 2.0),
        ("\\sleep :x us\n", math.inf),
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
