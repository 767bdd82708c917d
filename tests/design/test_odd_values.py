"""Odd values in every table that an arm can have: a file is refused with what is wrong in it, or it has a plan."""

import contextlib
from typing import Any

import tomli_w
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pgtrial.design.method_case import HostFacts
from pgtrial.design.plan import make_plan
from pgtrial.errors import SpecError
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.fields import keys_at
from pgtrial.experiment_file.load import examine
from pgtrial.knobs import KNOBS
from pgtrial.postgres.catalogue import VERSIONS, check_unknown_server

FACTS = HostFacts(local=True, cores=((0,), (1,), (2,), (3,)), memory_available=8 << 30)
# Names of settings where a table takes any.
_SETTINGS = ("shared_buffers", "checkpoint_timeout", "max_connections", "work_mem", "statement_timeout", "a.b")
_SYSCTLS = ("vm.swappiness", "vm.dirty_bytes", "vm.dirty_ratio", "kernel.x")
ODD = st.one_of(
    st.sampled_from(["none", "", " ", "on", "off", "0", "-1", "1e400", "1GB", "2 MB", "50%", "100%", "0%", "nan", "٣"]),
    st.sampled_from(["9" * 400, "1" * 5000, "/tmp", "~", "a, b", "18", "18.1", "cold", "randread", "libaio", "ext4"]),
    st.sampled_from([0, -1, 1, 8, 2**31, 2**63, 10**400, 0.5, 1.0, -0.0, 1e308, True, False]),
    st.text(max_size=8),
)


def keys(knob: str) -> tuple[str, ...]:
    return keys_at(("arms", "a", knob)) or (_SYSCTLS if knob == "sysctl" else _SETTINGS)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Some tables of an arm with odd values."""
    knobs = draw(st.lists(st.sampled_from(sorted(KNOBS)), max_size=3, unique=True))
    return {
        knob: draw(st.dictionaries(st.sampled_from(keys(knob)), ODD | st.lists(ODD, max_size=2), max_size=2))
        for knob in knobs
    }


@st.composite
def factors(draw: st.DrawFn) -> dict[str, Any]:
    made = {}
    for knob in draw(st.lists(st.sampled_from(sorted(KNOBS)), min_size=1, max_size=3, unique=True)):
        key = draw(st.sampled_from(keys(knob)))
        made[f"{knob}-{key}"] = {
            "knob": knob,
            "setting": key,
            "levels": draw(st.lists(ODD, min_size=2, max_size=3)),
        }
    return made


@st.composite
def experiments(draw: st.DrawFn) -> dict[str, Any]:
    load = draw(st.sampled_from([{"mix": "select-only"}, {"kind": "fio"}, {"kind": "fio", "job": [{"name": "j"}]}]))
    variation: dict[str, Any] = (
        {"factors": draw(factors())} if draw(st.booleans()) else {"arms": {"a": draw(tables()), "b": draw(tables())}}
    )
    return {
        "format": 1,
        "experiment": {"name": "x"},
        "workload": load,
        "target": draw(tables()),
        "design": {"method": draw(st.sampled_from(["blocks", "auto"]))},
        **variation,
    }


def is_refused_or_planned(data: dict[str, Any]) -> None:
    """All that is done with a file before it is refused, also with one that has errors, and what a plan is asked."""
    try:
        text = tomli_w.dumps(data)
    except ValueError:
        return  # a number of thousands of digits cannot even be written
    examination = examine(text, None)
    experiment, problems = examination.experiment, list(examination.problems)
    if experiment is None:
        assert problems
        return
    with contextlib.suppress(SpecError):
        assert all(arm.variant.key for arm in resolve_arms(experiment))
    problems += check_unknown_server(experiment, VERSIONS)
    if not problems:
        plan = make_plan(experiment, FACTS)
        assert plan.data_size > 0
        assert plan.estimate.total > 0
        assert all(judgement.method for judgement in plan.judgements)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(experiments())
@example(
    {
        "format": 1,
        "experiment": {"name": "x"},
        "workload": {"mix": "select-only"},
        "factors": {"scale": {"knob": "dataset", "levels": ["none", 10]}},
    }
)
def test_a_file_with_odd_values_is_refused_or_has_a_plan(data: dict[str, Any]) -> None:
    is_refused_or_planned(data)


def test_every_key_of_every_knob_takes_odd_levels_or_refuses_them() -> None:
    levels = ["none", "", "1e400", "50%", -1, 0, 0.5, 1, 10**400, True, "1GB", "/tmp"]
    for knob in KNOBS:
        for key in keys(knob):
            for level in levels:
                is_refused_or_planned(
                    {
                        "format": 1,
                        "experiment": {"name": "x"},
                        "workload": {"kind": "fio"} if knob == "fio" else {"mix": "select-only"},
                        "factors": {"f": {"knob": knob, "setting": key, "levels": [level, 10]}},
                    }
                )
