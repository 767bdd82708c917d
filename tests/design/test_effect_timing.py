from typing import Any

import pytest

from pgtrial.design.effect_timing import find_differences
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.knobs import KNOBS
from pgtrial.knobs.declaration import EffectTiming, Shared
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.postgres.catalogue import VERSIONS, read_catalogue

LIBRARIES = {"shared_preload_libraries", "session_preload_libraries", "local_preload_libraries"}


def test_every_knob_has_rules_of_which_the_last_takes_everything() -> None:
    for knob in KNOBS.values():
        assert knob.rules[-1].patterns == ("*",)
        assert all(rule.reason for rule in knob.rules)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_setting_of_postgresql_has_a_rule_of_its_own(version: int) -> None:
    settings = {name for name, facts in read_catalogue(version).items() if facts.context != "internal"}
    unknown = {name for name in settings if KNOBS[POSTGRESQL].rule_of(name).patterns == ("*",)}

    assert unknown <= LIBRARIES  # settles as the libraries do that it names


@pytest.mark.parametrize(
    ("knob", "name", "timing", "shared"),
    [
        ("postgresql", "work_mem", EffectTiming.AT_ONCE, False),
        ("postgresql", "Synchronous_Commit", EffectTiming.AT_ONCE, False),
        ("postgresql", "checkpoint_timeout", EffectTiming.BUILDS_UP, True),
        ("postgresql", "fsync", EffectTiming.BUILDS_UP, True),
        ("postgresql", "autovacuum_naptime", EffectTiming.BUILDS_UP, False),
        ("postgresql", "shared_buffers", EffectTiming.SECONDS, True),
        ("postgresql", "auto_explain.log_analyze", EffectTiming.AT_ONCE, False),
        ("postgresql", "timescaledb.restart_delay", EffectTiming.BUILDS_UP, False),
        ("sysctl", "vm.swappiness", EffectTiming.BUILDS_UP, True),
        ("sysctl", "vm.dirty_background_bytes", EffectTiming.BUILDS_UP, True),
        ("sysctl", "net.ipv4.conf.eth0/100.rp_filter", EffectTiming.AT_ONCE, False),
        ("sysctl", "kernel.sched_autogroup_enabled", EffectTiming.AT_ONCE, False),
        ("sysctl", "dev.cdrom.debug", EffectTiming.BUILDS_UP, True),
        ("block_device", "scheduler", EffectTiming.AT_ONCE, False),
        ("cgroup", "memory", EffectTiming.SECONDS, True),
        ("cgroup", "cpus", EffectTiming.AT_ONCE, False),
        ("memory_pressure", "share", EffectTiming.BUILDS_UP, True),
        ("sql", "apply", EffectTiming.AT_ONCE, False),
    ],
)
def test_effects_settle_as_they_do(knob: str, name: str, timing: EffectTiming, shared: bool) -> None:
    rule = KNOBS[knob].rule_of(name)

    assert rule.timing is timing
    assert bool(rule.shares) is shared


def experiment(**tables: Any) -> Experiment:
    head = {"format": 1, "experiment": {"name": "x"}, "workload": {"mix": "olap"}}
    return Experiment.model_validate(head | tables)


def labels(made: Experiment) -> list[str]:
    return [one.label for one in find_differences(resolve_arms(made))]


def test_only_what_differs_between_arms_counts() -> None:
    made = experiment(
        target={"postgresql": {"work_mem": "4MB", "jit": "off"}, "sysctl": {"vm.swappiness": 1}},
        arms={
            "a": {"postgresql": {"work_mem": "8MB"}},
            "b": {"block_device": {"scheduler": "none"}, "postgresql": {"jit": "off"}},
        },
        design={"placebo": True},
    )

    assert labels(made) == ["work_mem", "block_device scheduler"]


def test_libraries_differ_one_by_one() -> None:
    made = experiment(
        arms={
            "a": {"extensions": {"preload": ["auto_explain"]}},
            "b": {"extensions": {"preload": ["auto_explain", "pg_stat_statements"]}},
            "c": {"postgresql": {"shared_preload_libraries": "timescaledb"}},
        }
    )
    found = {one.label: one.rule.timing for one in find_differences(resolve_arms(made))}

    assert found == {
        "extensions auto_explain": EffectTiming.AT_ONCE,
        "extensions pg_stat_statements": EffectTiming.AT_ONCE,
        "extensions timescaledb": EffectTiming.BUILDS_UP,
    }


def test_what_is_shared_is_named_in_words() -> None:
    assert [str(shared) for shared in Shared] == ["page cache", "dirty pages", "device queue", "free memory"]


@pytest.mark.parametrize(
    ("apply", "timing"),
    [
        ("ALTER TABLE t ADD COLUMN note text", EffectTiming.AT_ONCE),
        ("CREATE INDEX ON t (a)", EffectTiming.AT_ONCE),
        ("ALTER TABLE t ALTER COLUMN a SET NOT NULL", EffectTiming.AT_ONCE),
        ("ALTER TABLE t SET (fillfactor = 50)", EffectTiming.BUILDS_UP),
        ("ALTER TABLE t RESET (parallel_workers)", EffectTiming.BUILDS_UP),
        ("CREATE INDEX ON t (a) WITH (fillfactor = 50)", EffectTiming.BUILDS_UP),
        ("alter table t set (AUTOVACUUM_enabled = off)", EffectTiming.BUILDS_UP),
    ],
)
def test_sql_settles_at_once_unless_it_bears_on_upkeep(apply: str, timing: EffectTiming) -> None:
    content: dict[str, Any] = {
        "format": 1,
        "experiment": {"name": "x"},
        "workload": {"mix": "select-only"},
        "arms": {"a": {}, "b": {"sql": {"apply": apply}}},
    }
    (difference,) = find_differences(resolve_arms(Experiment.model_validate(content)))

    assert difference.rule.timing is timing
