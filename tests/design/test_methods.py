from dataclasses import replace
from typing import Any

import pytest

from pgtrial.design.levels import load_levels
from pgtrial.design.method_case import METHODS, HostFacts
from pgtrial.design.methods import (
    BLOCKS,
    Judgement,
    MethodChoice,
    choose_method,
    judge_methods,
    plan_steps,
    warmup_steps,
)
from pgtrial.design.plan import make_plan
from pgtrial.design.slices import settle_time, slice_length
from pgtrial.errors import SpecError
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment

GIB = 1024**3
FACTS = HostFacts(local=True, cores=((0,), (1,), (2,), (3,)), memory_available=16 * GIB)
WORK_MEM = {"a": {"postgresql": {"work_mem": "4MB"}}, "b": {"postgresql": {"work_mem": "64MB"}}}


def experiment(method: str = "auto", *, mix: str = "select-only", **tables: Any) -> Experiment:
    head = {"format": 1, "experiment": {"name": "x"}, "arms": WORK_MEM}
    tables["workload"] = {"mix": mix, "duration": "30s"} | tables.get("workload", {})
    tables["design"] = {"method": method} | tables.get("design", {})
    return Experiment.model_validate(head | tables)


def arms_with(**table: dict[str, Any]) -> dict[str, Any]:
    return {"a": {}, "b": table}


def judge(made: Experiment, facts: HostFacts | None = FACTS) -> dict[str, Judgement]:
    found = judge_methods(made, resolve_arms(made), load_levels(made.workload), facts)
    return {judgement.method: judgement for judgement in found}


def choose(made: Experiment, facts: HostFacts | None = FACTS) -> MethodChoice:
    return choose_method(made, resolve_arms(made), load_levels(made.workload), facts)


def test_what_settles_at_once_is_interleaved() -> None:
    choice = choose(experiment())

    assert (choice.method, choice.guard, choice.slice) == ("interleaved", 0.5, 1.0)
    assert choice.reason == "It is the cheapest method without objection here."


def test_servers_with_huge_pages_take_turns_where_that_is_asked_for() -> None:
    """Each has a pool of its own; what the pools were made of may have been an arm's cache."""
    pages = {"size": "2MB"}
    made = experiment(arms=arms_with(huge_pages=pages))

    for method in ("interleaved", "duet"):
        assert judge(made)[method].valid
        assert judge(made)[method].doubtful
    assert choose(made).method == "blocks"
    assert choose(experiment(target={"huge_pages": pages})).method == "interleaved"


def test_clients_that_pause_by_the_clock_do_not_stand_still_for_others() -> None:
    made = experiment(workload={"scenario": [{"name": "slow", "file": "slow.sql"}]})
    pausing = replace(FACTS, pauses=(("slow.sql", 0.7),))

    assert judge(made)["interleaved"].valid
    assert not judge(made, pausing)["interleaved"].valid
    assert "their pauses go on while they stand still" in " ".join(judge(made, pausing)["interleaved"].reasons)
    assert judge(made, pausing)["duet"].valid
    assert judge(made, replace(FACTS, pauses=(("slow.sql", 0.004),)))["interleaved"].valid


def test_blocks_are_the_default_and_always_valid() -> None:
    made = experiment("blocks", arms=arms_with(sysctl={"vm.swappiness": 1}))

    assert choose(made) == BLOCKS
    assert judge(made)["blocks"] == Judgement(method="blocks", valid=True)


def test_what_is_enough_is_asked_of_an_arm_that_has_the_machine_to_itself() -> None:
    wanted = [{"metric": "pgbench.tps", "at_least": 100}]

    assert choose(experiment(acceptance=wanted)).method == "blocks"
    assert choose(experiment()).method == "interleaved"
    for method in ("interleaved", "duet", "switchback"):
        assert not judge(experiment(acceptance=wanted))[method].valid


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ({"target": {"host": "ssh://db"}}, "on another machine"),
        ({"design": {"cache": "cold"}}, "empty page cache"),
        ({"arms": arms_with(sysctl={"vm.swappiness": 1})}, "the effect of vm.swappiness builds up"),
        ({"arms": arms_with(sysctl={"vm.dirty_ratio": 1})}, "dirty pages of all programs"),
        ({"arms": arms_with(memory_pressure={"size": "1GB"})}, "swap"),
        ({"mix": "oltp", "arms": arms_with(storage={"data": "/srv"})}, "its own device"),
        ({"mix": "oltp", "arms": arms_with(filesystem={"options": "noatime"})}, "twins share the dirty pages"),
        ({"mix": "oltp", "arms": arms_with(postgresql={"fsync": False})}, "leaves writing to the kernel"),
        ({"mix": "oltp", "arms": arms_with(postgresql={"max_wal_size": "4GB"})}, "checkpoint cycle"),
        ({"arms": arms_with(postgresql={"shared_buffers": "12GB"})}, "need about 12.2 GB of memory"),
        ({"dataset": {"scale": 700}}, "as one alone would"),
    ],
)
def test_twins_are_refused_with_the_reason(tables: dict[str, Any], reason: str) -> None:
    found = judge(experiment(**tables))

    for method in ("interleaved", "duet"):
        assert not found[method].valid
        assert any(reason in text for text in found[method].reasons), found[method].reasons
    choice = choose(experiment(**tables))
    switched = found["switchback"]
    assert choice.method == ("switchback" if switched.valid and not switched.doubtful else "blocks")
    assert "not interleaved or duet" in choice.reason


@pytest.mark.parametrize(
    ("method", "tables", "reason"),
    [
        ("interleaved", {"workload": {"rate": 10.0}}, "keep arriving"),
        ("interleaved", {"arms": arms_with(postgresql={"autovacuum": False})}, "the clock keeps running"),
        ("interleaved", {"arms": arms_with(postgresql={"lock_timeout": "5s"})}, "is a time by the clock"),
        (
            "interleaved",
            {"design": {"slice": "2s"}, "arms": arms_with(sql={"apply": "ALTER TABLE t SET (fillfactor = 50)"})},
            "which need 5 s",
        ),
        (
            "interleaved",
            {"design": {"slice": "0.5s"}, "arms": arms_with(block_device={"scheduler": "none"})},
            "too short where an arm takes 500 ms to settle",
        ),
        (
            "interleaved",
            {"design": {"slice": "10s"}, "arms": {name: {} for name in "abcde"}},
            "10 slices of 10 s do not fit into a duration of 30 s",
        ),
        ("duet", {"arms": arms_with(block_device={"scheduler": "none"})}, "two values at once"),
        ("duet", {"arms": arms_with(transparent_huge_pages={"enabled": "never"})}, "two values at once"),
        ("duet", {"arms": arms_with(cgroup={"cpus": 1})}, "a limit of CPUs"),
        ("duet", {"target": {"cgroup": {"cpus": 1}}}, "a limit of CPUs"),
        ("duet", {"arms": {name: {} for name in "abcde"}}, "5 arms at once need at least 5 CPUs, and there are 4"),
    ],
)
def test_one_of_them_is_refused_with_the_reason(method: str, tables: dict[str, Any], reason: str) -> None:
    found = judge(experiment(**tables))

    assert any(reason in text for text in found[method].reasons), found[method]
    other = "duet" if method == "interleaved" else "interleaved"
    assert not any(reason in text for text in found[other].reasons)


@pytest.mark.parametrize(
    ("mix", "tables", "doubtful"),
    [
        ("select-only", {}, set()),
        ("simple-update", {}, {"duet"}),
        ("simple-update", {"target": {"postgresql": {"synchronous_commit": "off"}}}, set()),
        ("select-only", {"target": {"postgresql": {"statement_timeout": "10s"}}}, {"interleaved"}),
        ("select-only", {"target": {"postgresql": {"statement_timeout": "0ms"}}}, set()),
        (
            "select-only",
            {"arms": arms_with(sql={"apply": "ALTER TABLE t SET (fillfactor = 50)"})},
            {"interleaved", "duet"},
        ),
        ("select-only", {"arms": arms_with(cgroup={"memory": "2GB"})}, set()),
        ("simple-update", {"arms": arms_with(cgroup={"memory": "2GB"})}, {"interleaved", "duet"}),
        ("select-only", {"arms": arms_with(postgresql={"shared_buffers": "1GB"})}, set()),
        ("simple-update", {"arms": arms_with(postgresql={"shared_buffers": "1GB"})}, {"interleaved", "duet"}),
        ("select-only", {"arms": arms_with(postgresql={"max_parallel_workers": 2})}, {"duet"}),
        ("select-only", {"dataset": {"scale": 2000}}, {"interleaved", "duet"}),
    ],
)
def test_auto_leaves_what_is_in_doubt_to_the_user(mix: str, tables: dict[str, Any], doubtful: set[str]) -> None:
    made = experiment(mix=mix, **tables)
    found = judge(made)

    assert {method for method, judgement in found.items() if judgement.doubtful} == doubtful
    assert all(found[method].valid for method in ("interleaved", "duet"))
    free = [method for method in METHODS if found[method].valid and method not in doubtful]
    assert choose(made).method == free[0]


def test_shared_buffers_that_live_on_the_page_cache_are_refused_where_it_is_short() -> None:
    made = experiment(dataset={"scale": 2000}, arms=arms_with(postgresql={"shared_buffers": "1GB"}))

    assert any("the page cache" in text for text in judge(made)["interleaved"].reasons)
    assert judge(made, None)["interleaved"].valid  # of a machine that nobody has looked at nothing is known


def test_memory_that_an_arm_takes_away_is_not_there() -> None:
    common = {"postgresql": {"shared_buffers": "4GB"}}
    assert judge(experiment(target=common))["interleaved"].valid
    assert not judge(experiment(target=common | {"memory_pressure": {"share": "50%"}}))["interleaved"].valid


def test_parts_of_one_core_are_doubtful_in_a_duet() -> None:
    facts = HostFacts(local=True, cores=((0, 1),), memory_available=None)

    assert "fewer than 2 physical cores" in judge(experiment(), facts)["duet"].warnings[0]
    assert judge(experiment(), facts)["duet"].doubtful


def test_checkpoints_by_the_clock_inside_a_block_are_noted() -> None:
    found = judge(experiment(mix="simple-update", workload={"duration": "10min"}))["interleaved"]

    assert any("checkpoint_timeout 5 min" in text for text in found.warnings)
    assert not found.doubtful


def test_arms_that_end_one_by_one_do_not_share_the_time_of_a_block() -> None:
    made = experiment(design={"stop": "each-arm"})

    assert choose(made).method == "blocks"
    assert [method for method, judgement in judge(made).items() if judgement.valid] == ["blocks"]
    assert "are there to its end" in " ".join(judge(made)["interleaved"].reasons)


def test_what_is_asked_for_but_not_valid_is_an_error_with_the_reasons() -> None:
    made = experiment("interleaved", workload={"rate": 10.0}, design={"cache": "cold"})

    with pytest.raises(SpecError, match="arriving") as caught:
        choose(made)

    assert caught.value.problems[0].path == "design.method"
    assert "empty page cache" in caught.value.message
    assert 'Valid here: "blocks"' in caught.value.hint


def test_who_asks_for_a_doubtful_method_gets_it() -> None:
    choice = choose(experiment("duet", mix="simple-update"))

    assert (choice.method, choice.reason, choice.guard, choice.slice) == (
        "duet",
        "The file asks for it.",
        0.0107,
        0.032,
    )


@pytest.mark.parametrize(
    ("tables", "guard", "length"),
    [
        ({"workload": {"clients": 1}}, 0.01, 0.03),
        ({"workload": {"clients": [1, 16]}}, 0.0213, 0.064),
        ({"workload": {"clients": 500}}, 0.05, 0.25),
        ({"workload": {"duration": "10min"}}, 0.04, 0.12),
        ({"workload": {"duration": "10h"}}, 0.05, 0.25),
        ({"design": {"slice": "60ms"}}, 0.02, 0.06),
        ({"design": {"slice": "2s"}}, 0.05, 2.0),
    ],
)
def test_many_sessions_and_long_runs_exchange_cpus_less_often(
    tables: dict[str, Any], guard: float, length: float
) -> None:
    choice = choose(experiment("duet", **tables))

    assert (choice.guard, choice.slice) == pytest.approx((guard, length))


@pytest.mark.parametrize(
    ("tables", "settle", "length"),
    [
        ({}, 0.1, 1.0),
        ({"design": {"slice": "2s"}}, 0.1, 2.0),
        ({"arms": arms_with(block_device={"scheduler": "none"})}, 0.5, 2.0),
        ({"arms": arms_with(sysctl={"kernel.sched_autogroup_enabled": 0})}, 0.3, 1.2),
        ({"arms": arms_with(sql={"apply": "ALTER TABLE t SET (fillfactor = 50)"})}, 0.1, 5.0),
        ({"workload": {"duration": "800ms"}}, 0.1, 0.8),
    ],
)
def test_slices_are_as_long_as_the_settings_need(tables: dict[str, Any], settle: float, length: float) -> None:
    made = experiment(**tables)
    arms = resolve_arms(made)

    assert settle_time(arms) == pytest.approx(settle)
    assert slice_length(made, arms) == pytest.approx(length)


@pytest.mark.parametrize("method", ["interleaved", "duet"])
@pytest.mark.parametrize("names", ["ab", "abc", "abcd"])
def test_every_arm_has_about_the_duration_of_counted_time(method: str, names: str) -> None:
    made = experiment(method, arms={name: {} for name in names})
    choice = choose(made)
    steps = plan_steps(choice, names, seconds=30, seed="1/1/0")

    for name in names:
        counted = sum(step.length - step.guard for step in steps if name in step.arms)
        assert counted == pytest.approx(30, abs=len(names) * choice.slice)


def test_blocks_have_no_steps() -> None:
    assert plan_steps(BLOCKS, "ab", seconds=30, seed="") == ()


def test_the_plan_says_method_steps_and_looks() -> None:
    plan = make_plan(experiment(design={"blocks": 8, "stop": "decision"}), FACTS)

    assert plan.method.method == "interleaved"
    assert [judgement.method for judgement in plan.judgements] == ["interleaved", "duet", "switchback", "blocks"]
    assert plan.steps
    assert plan.looks == (6, 7, 8)
    assert make_plan(experiment(design={"blocks": 20, "stop": "decision", "looks": 4}), FACTS).looks == (6, 10, 15, 20)
    assert make_plan(experiment("blocks"), FACTS).looks == ()


def test_a_plan_of_a_method_that_is_not_valid_is_refused() -> None:
    with pytest.raises(SpecError, match="not valid here"):
        make_plan(experiment("duet"), HostFacts(local=True, cores=((0,),), memory_available=None))


def test_auto_lets_arms_take_turns_that_differ_by_sql() -> None:
    made = experiment(mix="tpcb-like", arms=arms_with(sql={"apply": "ALTER TABLE pgbench_accounts ADD COLUMN c text"}))

    assert choose_method(made, resolve_arms(made), load_levels(made.workload), FACTS).method == "interleaved"


@pytest.mark.parametrize(("seconds", "length"), [(2.0, 5.0), (30.0, 1.0), (0.5, 1.0)])
@pytest.mark.parametrize("arms", [("a", "b"), ("a", "b", "c")])
def test_a_warm_up_gives_each_arm_its_seconds_and_takes_no_longer(
    arms: tuple[str, ...], seconds: float, length: float
) -> None:
    choice = MethodChoice(method="interleaved", reason="", guard=length / 2, slice=length)
    steps = warmup_steps(choice, arms, seconds=seconds, seed="1")

    assert sum(step.length for step in steps) == pytest.approx(seconds * len(arms))
    assert max(step.length for step in steps) <= length
    for name in arms:
        assert sum(step.length for step in steps if step.arms == (name,)) == pytest.approx(seconds)


def grouped(memory: str = "256MB", *, mix: str = "select-only", method: str = "auto") -> Experiment:
    """Two sizes of shared buffers, and more data than fit into a small machine."""
    sizes = {"a": {"postgresql": {"shared_buffers": "32MB"}}, "b": {"postgresql": {"shared_buffers": "128MB"}}}
    target = {"cgroup": {"memory": memory}} if memory else {}
    return experiment(method, mix=mix, dataset={"scale": 100}, target=target, arms=sizes)


SMALL = replace(FACTS, memory_available=GIB)


def test_arms_whose_page_cache_is_in_groups_of_their_own_take_turns() -> None:
    assert choose(grouped(memory=""), SMALL).method == "blocks"
    assert choose(grouped(), SMALL).method == "interleaved"


def test_groups_isolate_only_where_all_of_them_fit_into_the_machine() -> None:
    found = judge(grouped("600MB"), SMALL)

    assert not found["interleaved"].valid
    assert "the control groups of 2 arms may have 1.17 GB together" in " ".join(found["interleaved"].reasons)


def test_a_group_of_one_arm_isolates_nothing() -> None:
    arms = {"a": {"cgroup": {"memory": "256MB"}}, "b": {"postgresql": {"shared_buffers": "64MB"}}}

    assert not judge(experiment(dataset={"scale": 100}, arms=arms), SMALL)["interleaved"].valid


def test_dirty_pages_are_shared_whatever_group_they_are_in() -> None:
    found = judge(grouped(mix="oltp"), SMALL)["interleaved"]

    assert found.valid
    assert found.doubtful
    assert "twins share the dirty pages, so the effect may look smaller" in " ".join(found.warnings)


def test_arms_that_read_from_one_disk_at_once_are_no_duet_whatever_groups_they_are_in() -> None:
    found = judge(grouped())["duet"]

    assert not found.valid
    assert "the disk, from which all arms read" in " ".join(found.reasons)
    assert judge(grouped("8GB"))["duet"].valid


def test_a_pool_of_huge_pages_is_of_the_machine_whatever_groups_there_are() -> None:
    arms = {"a": {}, "b": {"sysctl": {"vm.nr_hugepages": 10}}}

    assert not judge(experiment(target={"cgroup": {"memory": "256MB"}}, arms=arms))["interleaved"].valid


def test_swappiness_of_groups_that_reclaim_by_themselves_takes_turns_where_asked_for() -> None:
    def made(memory: str) -> Experiment:
        target = {"cgroup": {"memory": memory}} if memory else {}
        return experiment(target=target, arms=arms_with(sysctl={"vm.swappiness": 1}))

    found = judge(made("2GB"))

    assert found["interleaved"].valid
    assert found["interleaved"].doubtful
    assert not found["duet"].valid
    for memory in ("", "9GB"):  # none, or more for both than there is
        assert not judge(made(memory))["interleaved"].valid
    others = experiment(target={"cgroup": {"memory": "2GB"}}, arms=arms_with(sysctl={"vm.vfs_cache_pressure": 1}))
    assert not judge(others)["interleaved"].valid  # names of files are charged to whoever made them: pgtrial


def test_groups_with_more_or_less_memory_take_turns() -> None:
    sizes = {name: {"cgroup": {"memory": size}} for name, size in (("a", "200MB"), ("b", "300MB"))}

    assert choose(experiment(dataset={"scale": 33}, arms=sizes)).method == "interleaved"
    assert "the disk, from which all arms read" in " ".join(
        judge(experiment(dataset={"scale": 33}, arms=sizes))["duet"].reasons
    )
    assert not judge(experiment(dataset={"scale": 100}, arms=sizes), replace(FACTS, memory_available=GIB // 4))[
        "interleaved"
    ].valid
    assert judge(experiment(mix="oltp", arms=sizes))["interleaved"].doubtful


def test_what_is_read_from_disks_of_their_own_takes_turns_where_asked_for() -> None:
    def image(kind: str) -> dict[str, Any]:
        return {"filesystem": {"type": kind, "size": "4GB"}, "cgroup": {"memory": "256MB", "read_iops": 500}}

    def made(mix: str) -> Experiment:
        return experiment(mix=mix, arms={"a": image("ext4"), "b": image("xfs")})

    assert judge(made("select-only"))["interleaved"].valid
    assert not judge(made("select-only"))["duet"].valid
    assert not judge(made("oltp"))["interleaved"].valid
    remounted = experiment(arms=arms_with(filesystem={"options": "noatime"}))
    assert not judge(remounted)["interleaved"].valid  # one file system, under the data of all arms


def test_a_plan_tells_what_each_arm_has_for_itself() -> None:
    text = "each arm has the page cache and the free memory of its control group for itself, also while it is frozen"

    assert text in judge(grouped())["interleaved"].warnings
    assert text not in judge(grouped(""))["interleaved"].warnings
