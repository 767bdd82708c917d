"""What knobs declare, against what the program does with it."""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from pgtrial import knobs
from pgtrial.analysis.causes import limits, proofs
from pgtrial.design.method_case import Method
from pgtrial.design.variants import host_knobs, made_with
from pgtrial.engine.experiment import host_changes
from pgtrial.engine.target.base import IN_DATABASE
from pgtrial.experiment_file.arms import OF_JOBS, resolve_arms
from pgtrial.experiment_file.disk_tables import LIMITS
from pgtrial.experiment_file.experiment import TIMES, Experiment
from pgtrial.findings.catalogue import ENTRIES
from pgtrial.knobs import HOST_KNOBS, KNOBS, KnobTables, intends
from pgtrial.knobs.base import HostKnob
from pgtrial.knobs.declaration import Among, EffectTiming, Knob, Refusal, Scope
from pgtrial.knobs.pgbouncer import PGBOUNCER
from pgtrial.knobs.workload import WORKLOAD
from pgtrial.model.arm import Arm, Role

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


@pytest.mark.parametrize("name", KNOBS)
def test_every_knob_says_where_it_belongs_or_is_one_of_the_host(name):
    knob = type(KNOBS[name])

    assert "scope" in vars(knob) or issubclass(knob, HostKnob)
    assert knob.among_twins in (Among.OWN, Among.STANDING) or knob.scope is Scope.HOST


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


@pytest.mark.parametrize("knob", HOST_KNOBS, ids=lambda knob: knob.name)
def test_every_knob_of_the_host_has_a_test_in_which_pgtrial_is_killed(knob):
    tests = ast.parse(Path(__file__).with_name(f"test_{knob.name}.py").read_text(encoding="utf-8")).body
    names = [node.name for node in tests if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]

    assert any("kill" in name for name in names), "support.killing has what it takes"


@pytest.mark.parametrize(
    ("knob", "key"),
    [(name, key) for name, knob in KNOBS.items() if knob.scope is Scope.CLUSTER for key in knob.cluster_keys],
    ids=".".join,
)
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
        named |= {*knob.cluster_keys, *knob.sql_keys, *knob.writing_keys, *knob.unvaried_keys}
        named |= {refusal.key for refusal in knob.refusals if refusal.key}
        named |= {key for needs in knob.needs for key in (needs.key, needs.other) if key}
        if name != "sysctl":
            named |= {key for pair in knob.exclusive for key in pair.keys}
        assert named <= {*keys_of(name)}, name


@pytest.mark.parametrize("name", KNOBS)
def test_what_a_knob_refuses_and_intends_is_known_by_that_name(name):
    methods = {method for refusal in KNOBS[name].refusals for method in refusal.methods}

    assert methods <= {*get_args(Method)}
    assert all(code in ENTRIES for code in KNOBS[name].intends)


def test_a_refusal_counts_where_its_key_has_another_value():
    refusal = Refusal(methods=("duet",), key="size", unless="none", reason="is one")

    assert refusal.applies_to({"size": "2MB"})
    assert not refusal.applies_to({"size": "none"})
    assert not refusal.applies_to({"other": "1"})
    assert not Refusal(methods=("duet",), reason="is one").applies_to({})


def test_what_is_meant_is_found_by_the_key_that_an_arm_sets():
    assert intends({"memory_pressure": {"size": "1GB"}}, "swapping")
    assert intends({"sysctl": {"vm.swappiness": "1"}}, "swapping")
    assert not intends({"sysctl": {"vm.dirty_ratio": "1"}, "of_a_newer_pgtrial": {"key": "1"}}, "swapping")


def test_limits_of_a_control_group_and_all_that_is_made_longer_have_their_place_in_the_analysis():
    """What is missing there would be left out of the limits and proofs without a word."""
    assert {*limits.LIMITED} == {*LIMITS}
    assert {*proofs.RESOURCES} == {*TIMES}
