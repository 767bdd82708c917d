"""What the load of an arm is, where arms differ in it."""

from pathlib import Path

import pytest

from pgtrial.design.duration import guard_time
from pgtrial.design.levels import level_of, over_arms
from pgtrial.engine.loads.pgbench import PgbenchLoad
from pgtrial.errors import SpecError
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.findings.message import say
from pgtrial.findings.naming import name_level
from pgtrial.hosts.local import LocalHost
from pgtrial.model.run import LoadLevel
from pgtrial.workloads.scenarios import of_arm, read_arm_scripts, scenarios_of
from support.experiments import load_experiment

TEXT = """\
format = 1
[experiment]
name = "x"
[workload]
scenario = [{ name = "read", file = "read.sql" }, { name = "write", file = "write.sql" }]
clients = 2
[arms.old]
[arms.new.workload]
scripts = { read = "new.sql" }
variables = { batch = 100 }
protocol = "prepared"
connect = "each-transaction"
[design]
placebo = true
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "e.toml").write_text(TEXT)
    for name in ("read", "write", "new"):
        (tmp_path / f"{name}.sql").write_text(f"SELECT '{name}';")
    return tmp_path


@pytest.fixture
def planned(folder: Path):
    """By arm its generators, and the texts of its scripts."""
    experiment = load_experiment(folder / "e.toml").experiment
    arms = resolve_arms(experiment)
    load = PgbenchLoad(
        program=Path("pgbench"),
        account=None,
        workload=experiment.workload,
        scenarios=scenarios_of(experiment, folder),
        seed=1,
        here=LocalHost(),
        there=LocalHost(),
        own_scripts=read_arm_scripts(arms, folder),
    )

    def plan(arm):
        return load.generators(
            arm, None, LoadLevel(index=0, clients=2), block=1, seconds=5, directory=Path("/"), logged=True
        )

    return load, {arm.name: (arm, plan(arm)) for arm in arms}


def test_an_arm_has_its_own_script_and_the_others_of_the_file(planned):
    load, arms = planned

    texts = {name: load.scripts(arm) for name, (arm, _) in arms.items()}

    assert texts["old"] == texts["placebo"] == {"read": "SELECT 'read';", "write": "SELECT 'write';"}
    assert texts["new"] == {"read": "SELECT 'new';", "write": "SELECT 'write';"}
    assert [each.scripts["read.sql"] for each in arms["new"][1] if "read" in each.scenario_names] == ["SELECT 'new';"]


def test_variables_protocol_and_connections_are_those_of_the_arm(planned):
    _, arms = planned

    for generator in arms["new"][1]:
        assert {"--define=batch=100", "--protocol=prepared", "--connect"} < {*generator.argv_tail}
    for generator in arms["old"][1]:
        assert "--protocol=simple" in generator.argv_tail
        assert "--connect" not in generator.argv_tail
        assert not any(word.startswith("--define=batch") for word in generator.argv_tail)


def test_arms_of_a_block_have_the_same_random_numbers(planned):
    _, arms = planned

    seeds = {
        name: [word for each in generators for word in each.argv_tail if word.startswith("--random-seed")]
        for name, (_, generators) in arms.items()
    }

    assert seeds["old"] == seeds["new"]


def test_the_load_says_what_of_an_arm_it_does(planned):
    load, arms = planned

    assert load.does(arms["old"][0]) == frozenset()
    assert {key for _, key in load.does(arms["new"][0])} == {"scripts.read", "variables.batch", "protocol", "connect"}


def test_a_script_that_cannot_be_read_is_named_with_its_place(folder):
    experiment = load_experiment(folder / "e.toml").experiment
    (folder / "new.sql").write_bytes(b"\xff\xfe")

    with pytest.raises(SpecError, match="it is not UTF-8 text") as caught:
        read_arm_scripts(resolve_arms(experiment), folder)

    assert caught.value.problems[0].path == "arms.new.workload.scripts.read"


def test_an_arm_may_have_other_clients(folder):
    (folder / "e.toml").write_text(TEXT.replace('connect = "each', 'clients = 7\nconnect = "each'))
    experiment = load_experiment(folder / "e.toml").experiment
    old, new, _ = resolve_arms(experiment)
    level = LoadLevel(index=0, clients=2)

    assert level_of(old, level) == level
    assert level_of(new, level) == LoadLevel(index=0, clients=7)
    both = over_arms((old, new), level)
    assert both.label == say(name_level(both)) == "2 to 7 clients, by arm"
    assert over_arms((new,), level) == level_of(new, both) == LoadLevel(index=0, clients=7)


def test_all_arms_have_the_time_of_the_one_with_most_clients_to_connect(folder):
    (folder / "e.toml").write_text(TEXT.replace('connect = "each', 'clients = 400\nconnect = "each'))
    arms = resolve_arms(load_experiment(folder / "e.toml").experiment)

    assert guard_time(over_arms(arms, LoadLevel(index=0, clients=2))) == 8.0


def test_pauses_of_an_arm_are_longer_in_its_own_scripts_too(folder: Path) -> None:
    (folder / "read.sql").write_text("\\sleep 2 ms\nSELECT 1;")
    (folder / "new.sql").write_text("\\sleep :pause ms\nSELECT 1;")
    (folder / "e.toml").write_text(
        TEXT.replace("[arms.old]", "[arms.old.workload]\npauses = 1.5").replace(
            "scripts = {", "pauses = 3\nscripts = {"
        )
    )
    experiment = load_experiment(folder / "e.toml").experiment
    old, new, *_ = resolve_arms(experiment)
    own = read_arm_scripts([old, new], folder)

    texts = [
        {one.name: one.script for one in of_arm(scenarios_of(experiment, folder), arm, own.get(arm.name, {}))}
        for arm in (old, new)
    ]

    assert texts[0]["read"] == "\\set pgtrial_pause int(2 * 1500.0)\n\\sleep :pgtrial_pause us\nSELECT 1;"
    whole = "(int(:pause) - CASE WHEN int(:pause) > :pause THEN 1 ELSE 0 END)"
    assert texts[1]["read"] == f"\\set pgtrial_pause int({whole} * 3000.0)\n\\sleep :pgtrial_pause us\nSELECT 1;"
    assert texts[0]["write"] == texts[1]["write"] == "SELECT 'write';"
