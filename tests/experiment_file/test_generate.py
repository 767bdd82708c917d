import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.errors import SpecError
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.generate import control_twice, quick_experiment, read_time
from pgtrial.experiment_file.load import LoadedExperiment, parse_experiment

HEAD = 'format = 1\n[experiment]\nname = "x"\n'
LOAD = '[workload]\nmix = "select-only"\nclients = { ramp = "linear", from = 2, to = 6, levels = 3 }\n'
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))


def twice(text: str, **options: Any) -> LoadedExperiment:
    experiment = parse_experiment(text, "x", Path("/"), check_files=False).experiment
    return parse_experiment(control_twice(experiment, name="twice", **options), "twice", Path("/"), check_files=False)


def test_two_values_of_a_setting_make_an_experiment_that_passes_all_checks() -> None:
    text = quick_experiment(["shared_buffers=128MB,1GB"], mix="select-only", budget="10min", clients=4, scale=5)

    experiment = parse_experiment(text, "", Path("/")).experiment
    assert experiment.experiment.name == "shared_buffers-select-only"
    assert experiment.factors["shared_buffers"].levels == ("128MB", "1GB")
    assert experiment.workload.mix == "select-only"
    assert experiment.workload.clients == 4
    assert experiment.design.budget == 600
    assert experiment.dataset.scale == 5


def test_bare_numbers_are_seconds_as_in_a_file() -> None:
    text = quick_experiment(["work_mem=1MB,2MB"], duration="5", warmup="2.5", budget="600")

    experiment = parse_experiment(text, "", Path("/")).experiment
    assert experiment.workload.duration == 5
    assert experiment.workload.warmup == 2.5
    assert experiment.design.budget == 600
    assert "duration = 5\n" in text


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("0.5", 0.5), ("5s", "5s"), ("auto", "auto"), ("", ""), ("-5", "-5"), ("9" * 400,) * 2],
)
def test_only_a_bare_number_is_no_text(text: str, value: str | float) -> None:
    assert read_time(text) == value


def test_several_settings_are_crossed_and_a_single_value_is_common() -> None:
    text = quick_experiment(["a=1,2", "b=3,4,5", "c=6"])

    experiment = parse_experiment(text, "", Path("/")).experiment
    assert list(experiment.factors) == ["a", "b"]
    assert experiment.target.postgresql == {"c": "6"}


@pytest.mark.parametrize(
    ("setting", "levels"),
    [
        ("s=a,b", ["a", "b"]),
        ("s= a , b ", ["a", "b"]),
        ("s='a, b',c", ["a, b", "c"]),
        ('s="a, b","c, d"', ["a, b", "c, d"]),
        ("s='',x", ["", "x"]),
        ('s="it\'s",y', ["it's", "y"]),
        ("s=a=b,c=d", ["a=b", "c=d"]),
        ("s=a b,c", ["a b", "c"]),
    ],
)
def test_values_are_separated_by_commas_outside_quotation_marks(setting: str, levels: list[str]) -> None:
    assert tomllib.loads(quick_experiment([setting]))["factors"]["s"]["levels"] == levels


def test_a_setting_of_another_knob_is_named_with_it() -> None:
    text = quick_experiment(
        [
            "sysctl:vm.swappiness=1,60",
            "huge_pages:size=none,2MB",
            "block_device:read_ahead_kb=128,4096",
            "server:postgres=16,18",
            "cgroup:cpus=1.5",
            "block_device:wbt_lat_usec=-1",
            "extensions:create=pg_prewarm",
            "postgresql:work_mem=1MB",
        ]
    )

    experiment = parse_experiment(text, "", Path("/")).experiment
    assert {name: (f.knob, f.setting or name, f.levels) for name, f in experiment.factors.items()} == {
        "vm.swappiness": ("sysctl", "vm.swappiness", ("1", "60")),
        "huge_pages.size": ("huge_pages", "size", ("none", "2MB")),
        "block_device.read_ahead_kb": ("block_device", "read_ahead_kb", (128, 4096)),
        "server.postgres": ("server", "postgres", ("16", "18")),
    }
    assert experiment.target.texts() == {
        "postgresql": {"work_mem": "1MB"},
        "extensions": {"create": "pg_prewarm"},
        "cgroup": {"cpus": "1.5"},
        "block_device": {"wbt_lat_usec": "-1"},
    }
    assert experiment.experiment.name == "vm.swappiness-size-read_ahead_kb-postgres-simple-u"


def test_lists_are_texts_as_levels_and_lists_where_they_are_common() -> None:
    levels = quick_experiment(["extensions:preload='auto_explain, pg_prewarm','',auto_explain"])
    common = quick_experiment(["work_mem=1MB,2MB", "extensions:preload='auto_explain, pg_prewarm'"])

    assert parse_experiment(levels, "", Path("/")).experiment.factors["extensions.preload"].levels == (
        "auto_explain, pg_prewarm",
        "",
        "auto_explain",
    )
    assert parse_experiment(common, "", Path("/")).experiment.target.extensions.preload == (
        "auto_explain",
        "pg_prewarm",
    )


def test_a_value_that_a_knob_does_not_take_is_left_as_it_is_for_the_checks() -> None:
    tables = tomllib.loads(quick_experiment(["cgroup:cpus=0,x", "cgroup:memroy=1,2"]))

    assert tables["factors"]["cgroup.cpus"]["levels"] == ["0", "x"]
    assert tables["factors"]["cgroup.memroy"]["levels"] == ["1", "2"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["sysclt:vm.swappiness=1,2"], 'knob "sysclt" does not exist'),
        (["sysctl:=1,2"], "cannot parse the setting"),
        (["sysctl:vm swappiness=1,2"], "cannot parse the setting"),
        ([":work_mem=1,2"], 'knob "" does not exist'),
        (["sysctl:vm.x=1,2", "sysctl:vm.x=3,4"], 'setting "sysctl:vm.x" is given twice'),
        (["work_mem=1,2", "postgresql:work_mem=3,4"], 'setting "work_mem" is given twice'),
        (["shared_buffers"], 'cannot parse the setting "shared_buffers"'),
        (["=1,2"], "cannot parse the setting"),
        (["a b=1,2"], "cannot parse the setting"),
        (["a='x'y,2"], 'cannot parse the values of "a"'),
        (["a='x,2"], 'cannot parse the values of "a"'),
        (["a="], 'setting "a" has an empty value'),
        (["a=1,,2"], 'setting "a" has an empty value'),
        (["a=1,"], 'setting "a" has an empty value'),
        (["a=1"], "nothing to compare"),
        ([], "nothing to compare"),
        (["a=1,2", "a=3,4"], 'setting "a" is given twice'),
    ],
)
def test_what_cannot_be_read_is_refused_with_an_example(settings: list[str], message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        quick_experiment(settings)

    assert "-s " in caught.value.hint


def test_a_placebo_alone_is_something_to_compare() -> None:
    text = quick_experiment(["work_mem=1MB"], placebo=True)

    assert list(parse_experiment(text, "", Path("/")).experiment.arms) == ["control"]


@given(st.lists(st.text(st.characters(exclude_characters="'", exclude_categories=["Cs"])), min_size=2, max_size=3))
def test_any_value_reaches_the_file_as_it_was_given(values: list[str]) -> None:
    setting = "s=" + ",".join(f"'{value}'" for value in values)

    assert tomllib.loads(quick_experiment([setting]))["factors"]["s"]["levels"] == values


def test_the_method_and_its_slice_are_those_of_the_options() -> None:
    text = quick_experiment(["work_mem=1MB,2MB"], method="interleaved", slice="0.5")

    assert '[design]\nmethod = "interleaved"\nslice = 0.5\n' in text


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
        "cgroup": {"own_swappiness": "on"},
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
