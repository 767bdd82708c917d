import tomllib
from pathlib import Path

import pytest

from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.generate import control_twice
from pgtrial.experiment_file.load import parse_experiment

HEAD = 'format = 1\n[experiment]\nname = "x"\n'
LOAD = '[workload]\nmix = "select-only"\nclients = { ramp = "linear", from = 2, to = 6, levels = 3 }\n'
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))


def twice(text: str, **options: object):
    return parse_experiment(control_twice(text, name="twice", **options), "twice", Path("/"), check_files=False)


def test_both_arms_have_all_that_the_control_has_with_what_it_inherits() -> None:
    text = f"""{HEAD}{LOAD}
    [target.postgresql]
    max_wal_size = "4GB"
    [arms.a]
    inherit = "b"
    [arms.a.postgresql]
    work_mem = "1MB"
    "auto_explain.log_timing" = true
    [arms.b.postgresql]
    work_mem = "2MB"
    wal_buffers = "8MB"
    [arms.b.extensions]
    preload = ["auto_explain"]
    """
    experiment = twice(text).experiment
    control, again = resolve_arms(experiment)

    assert (control.name, again.name) == ("control", "again")
    assert control.settings == {
        "max_wal_size": "4GB",
        "work_mem": "1MB",
        "wal_buffers": "8MB",
        "auto_explain.log_timing": "on",
    }
    assert control.knobs == {"extensions": {"preload": "auto_explain"}}
    assert again.settings == control.settings
    assert again.knobs == control.knobs


def test_of_factors_the_control_has_the_first_levels() -> None:
    text = f"""{HEAD}{LOAD}
    [factors.work_mem]
    levels = ["1MB", "2MB"]
    [factors.swap]
    knob = "sysctl"
    setting = "vm.swappiness"
    levels = [60, 1]
    [factors.lib]
    knob = "extensions"
    setting = "preload"
    levels = ["auto_explain, pg_stat_statements", ""]
    """
    experiment = twice(text).experiment
    control = resolve_arms(experiment)[0]

    assert control.settings == {"work_mem": "1MB"}
    assert control.knobs == {
        "sysctl": {"vm.swappiness": "60"},
        "extensions": {"preload": "auto_explain, pg_stat_statements"},
    }


def test_method_time_and_seed_are_new_and_the_rest_stays() -> None:
    text = f"""{HEAD}{LOAD}
    [hypothesis]
    claim = "a"
    arm = "b"
    metric = "pgbench.latency_p95"
    margin = "5%"
    [arms.a]
    [arms.b.postgresql]
    work_mem = "2MB"
    [design]
    budget = "2h"
    stop = "decision"
    cache = "warm"
    seed = 7
    """
    experiment = twice(text, method="interleaved", slice=0.25, blocks=3, duration=4, warmup=2.5, portion=1).experiment

    assert (experiment.hypothesis.metric, experiment.hypothesis.margin) == ("pgbench.latency_p95", 0.05)
    assert (experiment.hypothesis.arm, experiment.hypothesis.expect) == (None, "equivalent")
    assert (experiment.workload.duration, experiment.workload.warmup) == (4, 2.5)
    assert experiment.workload.clients.expand() == (2, 4, 6)
    design = experiment.design
    assert (design.method, design.slice, design.blocks, design.seed) == ("interleaved", 0.25, 3, 8)
    assert (design.budget, design.stop, design.cache) == (None, "never", "warm")


def test_a_margin_of_zero_is_kept() -> None:
    experiment = twice(f'{HEAD}{LOAD}[hypothesis]\nmargin = "0%"\n[arms.a]\n[arms.b]\n').experiment

    assert (experiment.hypothesis.margin, experiment.hypothesis.expect) == (0, "different")


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in EXAMPLES])
def test_the_control_of_every_example_can_be_compared_with_itself(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert len(resolve_arms(twice(text).experiment)) == 2


def test_rendered_toml_is_read_as_it_was() -> None:
    data = {
        "format": 1,
        "a": {"text": 'q"\\\n\x7fü', "list": [1, 2.5, "x"], "flag": True, "inner": {"a.b": "c", "empty": {}}},
        "rows": {"own": [{"name": "x", "share": 0.5}, {"name": "y"}]},
        "none": {},
    }

    assert tomllib.loads(render_toml(data)) == data
