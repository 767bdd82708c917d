"""Variables that arms give to scripts, by what pgbench would do with them."""

from pathlib import Path
from typing import Any

import pytest

from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.workloads.variables import explain_idle_variables


def problems_of(folder: Path, workload: dict[str, Any], **others: Any) -> list[tuple[str, str]]:
    tables: dict[str, Any] = {"arms": {"a": {}, "b": {"workload": {"variables": {"n": 5}}}}, **others}
    experiment = Experiment.model_validate(
        {"format": 1, "experiment": {"name": "x"}, "dataset": {"scale": 1}, "workload": workload, **tables}
    )
    found = explain_idle_variables(experiment, resolve_arms(experiment), folder)
    return [(problem.path, problem.message) for problem in found]


UNUSED = 'no script of this load uses the variable "n"'
SET = 'scenario "one" sets its variable "n" itself, and this value does not count'


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("SELECT :n;\n", ""),
        ("SELECT ':n%';\n", ""),
        ("\\set k random(1, :n)\nSELECT :k;\n", ""),
        ("\\sleep :n ms\n", ""),
        ("SELECT 1;\n", UNUSED),
        ("SELECT :nn, x::text;\n", UNUSED),
        ("\\set n 1\nSELECT :n;\n", SET),
        ("-- takes :n rows\n\\SET n 1\nSELECT :n;\n", SET),
        ("SELECT :n;\n\\set n 1\n", ""),
        ("\\set n :n * 2\nSELECT :n;\n", ""),
        ("\\set m 1\nSELECT :n, :m;\n", ""),
        ("\\if :client_id < 1\n\\set n 1\n\\endif\nSELECT :n;\n", ""),
        ("\\if :client_id < 1\nSELECT 1;\n\\endif\n\\set n 1\nSELECT :n;\n", SET),
    ],
)
def test_a_value_counts_where_a_script_uses_it_and_does_not_set_it_first(
    tmp_path: Path, script: str, message: str
) -> None:
    (tmp_path / "one.sql").write_text(script)

    found = problems_of(tmp_path, {"scenario": [{"name": "one", "file": "one.sql"}]})

    assert found == ([("arms.b.workload.variables.n", message)] if message else [])


@pytest.mark.parametrize("mix", ["select-only", "oltp"])
def test_scripts_of_a_mix_have_no_variables_but_the_scale(tmp_path: Path, mix: str) -> None:
    scaled = {"a": {}, "b": {"workload": {"variables": {"scale": 5}}}}

    assert problems_of(tmp_path, {"mix": mix}) == [("arms.b.workload.variables.n", UNUSED)]
    assert problems_of(tmp_path, {"mix": mix}, arms=scaled) == []


def test_a_variable_of_all_arms_needs_a_script_of_one_of_them(tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_text("SELECT 1;\n")
    (tmp_path / "own.sql").write_text("SELECT :n;\n")
    common = {"workload": {"variables": {"n": 5}}}
    workload = {"scenario": [{"name": "one", "file": "one.sql"}]}
    own = {"a": {}, "b": {"workload": {"scripts": {"one": "own.sql"}}}}

    assert problems_of(tmp_path, workload, target=common, arms=own) == []
    assert problems_of(tmp_path, workload, target=common, arms={"a": {}, "b": {}}) == [
        ("target.workload.variables.n", UNUSED)
    ]
