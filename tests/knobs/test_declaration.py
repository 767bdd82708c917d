"""What knobs declare, against what the program does with it."""

import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from pgtrial import knobs
from pgtrial.design.variants import host_knobs, made_with
from pgtrial.engine.experiment import host_changes
from pgtrial.engine.target.base import IN_DATABASE
from pgtrial.experiment_file.arms import OF_JOBS, resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.knobs import HOST_KNOBS, KNOBS, KnobTables
from pgtrial.knobs.base import HostKnob
from pgtrial.knobs.declaration import Among, EffectTiming, Knob, Scope
from pgtrial.knobs.pgbouncer import PGBOUNCER
from pgtrial.knobs.workload import WORKLOAD
from pgtrial.model.arm import Arm, Role

DECLARED = {
    "postgresql": (Scope.SETTINGS, Among.OWN),
    "server": (Scope.CLUSTER, Among.OWN),
    "extensions": (Scope.DATABASE, Among.OWN),
    "sql": (Scope.DATABASE, Among.OWN),
    "dataset": (Scope.CLUSTER, Among.OWN),
    "storage": (Scope.CLUSTER, Among.STANDING),
    "filesystem": (Scope.HOST, Among.STANDING),
    "cgroup": (Scope.HOST, Among.OWN),
    "transparent_huge_pages": (Scope.HOST, Among.SWITCHED),
    "sysctl": (Scope.HOST, Among.SWITCHED),
    "block_device": (Scope.HOST, Among.SWITCHED),
    "huge_pages": (Scope.HOST, Among.STANDING),
    "memory_pressure": (Scope.HOST, Among.STANDING),
    "tracing": (Scope.HOST, Among.STANDING),
    "fio": (Scope.LOAD, Among.OWN),
}
# Two values of each key that a cluster is made with.
OF_CLUSTER: dict[tuple[str, str], tuple[Any, Any]] = {
    ("server", "postgres"): ("16", "18"),
    ("server", "checksums"): (True, False),
    ("dataset", "scale"): (1, 2),
    ("storage", "data"): ("/var/tmp", "/tmp"),
    ("storage", "wal"): ("/var/tmp", "/tmp"),
}


def keys_of(knob: str) -> tuple[str, ...]:
    """Keys of a table; () of one that takes any."""
    annotation = KnobTables.model_fields[knob].annotation
    models = [part for part in (annotation, *get_args(annotation)) if isinstance(part, type)]
    return tuple(key for model in models if issubclass(model, BaseModel) for key in model.model_fields)


def experiment(first: dict[str, Any], second: dict[str, Any]) -> Experiment:
    tables = {"format": 1, "experiment": {"name": "x"}, "workload": {"mix": "olap"}}
    return Experiment.model_validate(tables | {"arms": {"a": first, "b": second}})


def test_every_knob_is_what_it_was_declared_to_be():
    assert {name: (KNOBS[name].scope, KNOBS[name].among_twins) for name in DECLARED} == DECLARED


def test_what_a_server_that_is_there_cannot_have_and_what_has_no_meaning_without_a_server():
    refused = {name for name in DECLARED if KNOBS[name].not_on_server}
    of_server = {name for name in DECLARED if KNOBS[name].needs_server}

    assert refused == {"server", "dataset", "storage", "filesystem", "cgroup", "huge_pages"}
    assert of_server == {"postgresql", "server", "extensions", "sql", "dataset", "huge_pages"}


def test_what_changes_the_host_can_be_made_and_undone_and_nothing_else_can():
    assert {name for name, knob in KNOBS.items() if knob.scope is Scope.HOST} == {knob.name for knob in HOST_KNOBS}


def test_knobs_of_the_host_are_applied_in_an_order_in_which_none_spoils_the_other():
    order = [knob.name for knob in HOST_KNOBS]

    assert order.index("transparent_huge_pages") < order.index("sysctl")
    assert order.index("huge_pages") < order.index("memory_pressure")


@pytest.mark.parametrize("knob", [*(knob.name for knob in HOST_KNOBS), "not_known_here"])
def test_what_changes_the_host_needs_the_permission_and_is_made_with_the_run(knob):
    made = experiment({}, {})
    arm = Arm(name="a", role=Role.CANDIDATE, knobs={knob: {"key": "value"}})

    assert host_changes(made, [arm]) == (f"{knob}.key = value",)
    assert host_knobs(arm) == {knob: {"key": "value"}}


def test_every_knob_that_has_a_file_has_its_table():
    modules = [importlib.import_module(f"pgtrial.knobs.{found.name}") for found in pkgutil.iter_modules(knobs.__path__)]
    classes = {value for module in modules for value in vars(module).values() if inspect.isclass(value)}
    found = {value for value in classes if issubclass(value, Knob)} - {Knob, HostKnob}

    assert {value.__name__ for value in found} == {type(knob).__name__ for knob in KNOBS.values()}


@pytest.mark.parametrize("knob", HOST_KNOBS, ids=lambda knob: knob.name)
def test_every_knob_of_the_host_has_tests_of_its_own(knob):
    assert Path(__file__).with_name(f"test_{knob.name}.py").exists()


@pytest.mark.parametrize(("knob", "key"), OF_CLUSTER, ids=".".join)
def test_every_key_that_a_cluster_is_made_with_makes_another_cluster(knob, key):
    one, other = OF_CLUSTER[knob, key]
    made = experiment({knob: {key: one}}, {knob: {key: other}})
    first, second = resolve_arms(made)

    assert first.variant != second.variant
    assert (knob, key) in made_with(first)


def test_every_key_of_a_table_is_set_by_somebody():
    """What is missing here would make each run invalid that declares it."""
    made = experiment({}, {})
    done = {*made_with(resolve_arms(made)[0]), *IN_DATABASE, *OF_JOBS, ("storage", "disk")}
    done |= {(WORKLOAD, key) for key in keys_of(WORKLOAD)}  # by the load: tests/workloads/test_arm_loads.py
    done |= {(PGBOUNCER, key) for key in keys_of(PGBOUNCER)}  # when the server is up: tests/e2e/test_pooler.py
    around = [name for name, knob in KNOBS.items() if knob.scope in (Scope.CLUSTER, Scope.DATABASE, Scope.LOAD)]

    assert {(knob, key) for knob in around for key in keys_of(knob)} == done
    assert {(knob, key) for knob in around for key in keys_of(knob) if knob in ("server", "dataset", "storage")} == {
        *OF_CLUSTER,
        ("storage", "disk"),
    }


def test_a_remounted_file_system_is_no_part_of_how_the_cluster_is_made():
    own = experiment({}, {"filesystem": {"type": "ext4", "size": "1GB"}})
    remounted = experiment({}, {"filesystem": {"options": "noatime"}})

    assert ("filesystem", "options") in made_with(resolve_arms(own)[1])
    assert ("filesystem", "options") not in made_with(resolve_arms(remounted)[1])


def test_what_a_knob_does_not_say_is_taken_to_be_what_needs_most_care():
    knob = Knob()

    assert (knob.scope, knob.among_twins) == (Scope.HOST, Among.STANDING)
    assert knob.rule_of("anything").timing is EffectTiming.BUILDS_UP


def test_every_table_has_the_keys_that_its_declaration_names():
    for name, knob in KNOBS.items():
        named = {*knob.keys_of_server, *knob.restart_keys, *(own.key for own in knob.own_settings)}
        named |= {key for needs in knob.needs for key in (needs.key, needs.other) if key}
        if name != "sysctl":
            named |= {key for pair in knob.exclusive for key in pair.keys}
        assert named <= {*keys_of(name)}, name
