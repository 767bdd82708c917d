import contextlib
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial.design.method_case import HostFacts
from pgtrial.design.methods import MethodChoice
from pgtrial.design.plan import make_plan
from pgtrial.errors import StoreError
from pgtrial.store.layout import STATE
from pgtrial.store.plans import read_plan, write_plan
from pgtrial.store.state import State
from support.experiments import load_experiment

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.toml"))
FACTS = HostFacts(local=True, cores=((0, 1), (2, 3), (4, 5)), memory_available=64 << 30)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_plan_is_read_as_it_was_written(path: Path, tmp_path: Path) -> None:
    plan = make_plan(load_experiment(path, check_files=False).experiment, FACTS)
    state = State.create(tmp_path, durable=False)
    write_plan(state, plan)
    state.close()

    assert read_plan(tmp_path) == plan


def test_limits_of_checks_and_requirements_are_kept_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "file.toml"
    limits = '[checks.cpu-busy]\nthreshold = "90%"\nalarm = 0.75\n\n[checks.read-response]\nthreshold = "2ms"\n'
    path.write_text((Path(__file__).parents[2] / "examples" / "first.toml").read_text() + f"\n{limits}")
    plan = make_plan(load_experiment(path, check_files=False).experiment, FACTS)
    state = State.create(tmp_path, durable=False)
    write_plan(state, plan)
    state.close()

    again = read_plan(tmp_path)

    assert again == plan
    assert again.experiment.checks["cpu-busy"].model_dump(exclude_none=True) == {"threshold": "90%", "alarm": 0.75}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("method_slice", "1e-8"),
        ("method_slice", "nan"),
        ("method_slice", "inf"),
        ("method_slice", "0"),
        ("method_guard", "0.5"),
        ("method_guard", "-1"),
        ("method_guard", "0"),
        ("method_guard", "1e-300"),
        ("method_duration", "1e300"),
        ("method_duration", "nan"),
        ("method_duration", "-1"),
        ("attempts_before", "-1"),
        ("attempts_before", "1.5"),
    ],
)
def test_numbers_of_a_plan_that_cannot_be_are_damage(tmp_path: Path, key: str, value: str) -> None:
    (path,) = [path for path in EXAMPLES if path.stem == "first"]
    plan = make_plan(load_experiment(path, check_files=False).experiment, FACTS)
    state = State.create(tmp_path, durable=False)
    write_plan(state, replace(plan, method=MethodChoice(method="interleaved", reason="", guard=0.25, slice=0.5)))
    state.set_meta(**{key: value})
    state.close()

    with pytest.raises(StoreError, match="is damaged"):
        read_plan(tmp_path)


def test_a_block_that_lacks_a_run_of_an_arm_is_damage(tmp_path: Path) -> None:
    (path,) = [path for path in EXAMPLES if path.stem == "first"]
    plan = make_plan(load_experiment(path, check_files=False).experiment, FACTS)
    state = State.create(tmp_path, durable=False)
    write_plan(state, plan)
    state.close()
    control = plan.arms[0].name
    with contextlib.closing(sqlite3.connect(tmp_path / STATE)) as db, db:
        db.execute("DELETE FROM slot WHERE block = 2 AND arm = ?", (control,))

    with pytest.raises(StoreError, match=f'is damaged: table slot has no run of arm "{control}" in block 2'):
        read_plan(tmp_path)
