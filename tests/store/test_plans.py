from pathlib import Path

import pytest

from pgtrial.design.method_checks import HostFacts
from pgtrial.design.plan import make_plan
from pgtrial.experiment_file.load import load_experiment
from pgtrial.store.plans import read_plan, write_plan
from pgtrial.store.state import State

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.toml"))
FACTS = HostFacts(local=True, cores=((0, 1), (2, 3), (4, 5)), memory_available=64 << 30)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_plan_is_read_as_it_was_written(path: Path, tmp_path: Path) -> None:
    plan = make_plan(load_experiment(path, check_files=False).experiment, FACTS)
    state = State.create(tmp_path, durable=False)
    write_plan(state, plan)
    state.close()

    assert read_plan(tmp_path) == plan
