from typing import Any

import pytest

from pgtrial.design.levels import load_levels
from pgtrial.design.methods import Judgement, judge_methods
from pgtrial.design.plan import make_plan
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.knobs import KNOBS
from pgtrial.postgres.catalogue import read_catalogue

Tables = dict[str, dict[str, Any]]
DIRTY = ({"sysctl": {"vm.dirty_ratio": 30}}, {"sysctl": {"vm.dirty_ratio": 10}})


def experiment(a: Tables, b: Tables, *, method: str = "auto", **workload: Any) -> Experiment:
    return Experiment.model_validate(
        {
            "format": 1,
            "experiment": {"name": "x"},
            "workload": {"mix": "simple-update", **workload},
            "arms": {"a": a, "b": b},
            "design": {"method": method, "seed": 1},
        }
    )


def judge(a: Tables, b: Tables, **workload: Any) -> Judgement:
    made = experiment(a, b, **workload)
    judgements = judge_methods(made, resolve_arms(made), load_levels(made.workload), None)
    return next(one for one in judgements if one.method == "switchback")


@pytest.mark.parametrize(
    ("table", "key", "values"),
    [
        ("sysctl", "vm.dirty_background_ratio", (10, 5)),
        ("block_device", "scheduler", ("none", "mq-deadline")),
        ("postgresql", "work_mem", ("4MB", "8MB")),
        ("postgresql", "synchronous_commit", ("on", "off")),
        ("postgresql", "bgwriter_delay", ("200ms", "50ms")),
    ],
)
def test_what_holds_at_run_time_can_be_switched(table: str, key: str, values: tuple[Any, Any]) -> None:
    found = judge({table: {key: values[0]}}, {table: {key: values[1]}})

    assert found.valid, found.reasons
    assert not found.doubtful


@pytest.mark.parametrize(
    ("table", "key", "values", "reason"),
    [
        ("postgresql", "shared_buffers", ("128MB", "1GB"), "not switched while a server runs"),
        ("postgresql", "jit_provider", ("llvmjit", "other"), "not switched while a server runs"),
        ("postgresql", "checkpoint_timeout", ("30s", "60s"), "not switched while a server runs"),
        ("sysctl", "vm.nr_hugepages", (0, 100), "not switched while a server runs"),
        ("block_device", "read_ahead_kb", (128, 4096), "not switched while a server runs"),
        ("transparent_huge_pages", "enabled", ("always", "never"), "not switched while a server runs"),
        ("server", "postgres", ("16", "18"), "not switched while a server runs"),
    ],
)
def test_what_holds_only_for_what_is_begun_after_it_cannot(
    table: str, key: str, values: tuple[Any, Any], reason: str
) -> None:
    found = judge({table: {key: values[0]}}, {table: {key: values[1]}})

    assert any(reason in text for text in found.reasons)


def test_a_claim_in_turns_is_about_what_slices_tell() -> None:
    def find_reasons(metric: str, method: str) -> tuple[str, ...]:
        made = experiment(*DIRTY)
        claim = made.hypothesis.model_copy(update={"metric": metric})
        made = made.model_copy(update={"hypothesis": claim})
        judgements = judge_methods(made, resolve_arms(made), load_levels(made.workload), None)
        return next(one.reasons for one in judgements if one.method == method)

    for metric in ("pgbench.tps", "pgbench.latency_mean", "pgbench.latency_p99"):
        assert find_reasons(metric, "switchback") == ()
    for metric in ("iostat.w_await", "cost.wal_bytes", "waits.IO", "stability.lowest", "pgbench.failures"):
        for method in ("switchback", "interleaved"):
            assert "what an arm leaves for the turns of others" in find_reasons(metric, method)[0]
    assert "nothing tells which arm" in find_reasons("iostat.r_await", "duet")[0]
    assert not any("waits.IO" in reason for reason in find_reasons("waits.IO", "duet"))


def test_plans_of_prepared_statements_are_kept_by_their_sessions() -> None:
    arms = {"postgresql": {"enable_indexscan": True}}, {"postgresql": {"enable_indexscan": False}}

    assert judge(*arms).valid
    assert "keeps the plan" in judge(*arms, protocol="prepared").reasons[0]


def test_auto_switches_what_twins_would_leak_and_asks_before_what_takes_minutes() -> None:
    assert make_plan(experiment(*DIRTY)).method.method == "switchback"
    swappiness = {"sysctl": {"vm.swappiness": 10}}, {"sysctl": {"vm.swappiness": 1}}
    assert make_plan(experiment(*swappiness)).method.method == "blocks"
    assert make_plan(experiment(*swappiness, method="switchback")).method.method == "switchback"


def test_what_builds_up_has_long_slices_twice_as_long_in_every_second_block() -> None:
    made = make_plan(experiment(*DIRTY)).method

    assert (made.slice_in(1), made.guard_in(1), made.slice_in(2), made.guard_in(2)) == (30, 15, 60, 30)
    at_once = make_plan(
        experiment({"postgresql": {"work_mem": "4MB"}}, {"postgresql": {"work_mem": "8MB"}}, method="switchback")
    ).method
    assert (at_once.slice, at_once.guard, at_once.doubled) == (2, 1, False)


def test_a_block_has_one_server() -> None:
    plan = make_plan(experiment(*DIRTY))

    assert plan.estimate.run.server == pytest.approx(1)
    assert plan.steps[0].arms != plan.steps[1].arms
    assert [step.arms for step in plan.steps] == [step.arms for step in reversed(plan.steps)]


def judge_existing(
    b: Tables, *, settings: str = "server", guardrails: dict[str, Any] | None = None, method: str = "switchback"
) -> tuple[Judgement, ...]:
    made = Experiment.model_validate(
        {
            "format": 1,
            "experiment": {"name": "x"},
            "target": {"kind": "server", "settings": settings},
            "workload": {"mix": "select-only", "duration": "10min"},
            "arms": {"a": {}, "b": b},
            "design": {"method": method, "slice": "2min"},
            **({} if guardrails is None else {"guardrails": guardrails}),
        }
    )
    return judge_methods(made, resolve_arms(made), load_levels(made.workload), None)


def of_switching(judgements: tuple[Judgement, ...]) -> Judgement:
    return next(one for one in judgements if one.method == "switchback")


LIMIT = {"p99": "200ms"}
COMMIT: Tables = {"postgresql": {"synchronous_commit": "off"}}


def test_an_existing_server_is_switched_where_the_file_has_guardrails_and_never_by_itself() -> None:
    found = of_switching(judge_existing(COMMIT, guardrails=LIMIT))

    assert found.valid, found.reasons
    assert found.doubtful  # so "auto" does not take it


@pytest.mark.parametrize(
    ("b", "settings", "guardrails", "reason"),
    [
        (COMMIT, "server", None, "has no [guardrails]"),
        (COMMIT, "session", LIMIT, "sessions keep the settings that they begin with"),
        (COMMIT, "role", LIMIT, "sessions keep the settings that they begin with"),
        ({"postgresql": {"shared_buffers": "1GB"}}, "server", LIMIT, "not switched while a server runs"),
        ({"postgresql": {"checkpoint_timeout": "10min"}}, "server", LIMIT, "not switched while a server runs"),
        ({"sysctl": {"vm.dirty_ratio": 10}}, "server", LIMIT, "between settings of PostgreSQL alone"),
        ({"sql": {"apply": "SELECT 1"}}, "server", LIMIT, "between settings of PostgreSQL alone"),
    ],
)
def test_an_existing_server_is_not_switched_otherwise(
    b: Tables, settings: str, guardrails: dict[str, Any] | None, reason: str
) -> None:
    found = of_switching(judge_existing(b, settings=settings, guardrails=guardrails))

    assert any(reason in text for text in found.reasons)


@pytest.mark.parametrize("version", [15, 16, 17, 18])
def test_no_setting_is_switched_that_a_server_or_a_session_takes_only_when_it_starts(version: int) -> None:
    wrong = [
        name
        for name, facts in read_catalogue(version).items()
        if KNOBS["postgresql"].can_be_switched(name) and facts.context not in ("user", "superuser", "sighup")
    ]
    assert wrong == []
