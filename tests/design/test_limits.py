"""The experiment that finds what limits an arm: its points, and the file made of another one."""

import itertools
import math
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from pgtrial.design.limits import (
    AS_IS,
    EVERYTHING,
    MOST_RESOURCES,
    find_resources,
    limits_experiment,
    limits_to_prove,
    log_time,
    two_level_design,
)
from pgtrial.design.plan import make_plan
from pgtrial.errors import SpecError
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.load import examine

TEXT = """\
format = 1
[experiment]
name = "x"
[dataset]
scale = 1
[workload]
mix = "simple-update"
clients = 4
[target.postgresql]
max_wal_size = "2GB"
[arms.on.postgresql]
synchronous_commit = true
work_mem = "8MB"
[arms.off]
inherit = "on"
[arms.off.postgresql]
synchronous_commit = false
[arms.limited.cgroup]
write_iops = 150
write_bytes = "9MB"
[arms.limited.extensions]
preload = ["auto_explain", "pg_stat_statements"]
"""
DISK = """
[disks.slow]
size = "1GB"
write_iops = 300
[arms.emulated.storage]
disk = "slow"
"""


def read(text: str) -> Experiment:
    examination = examine(text, Path("/"))
    assert examination.experiment is not None
    assert examination.problems == ()
    return examination.experiment


def derive(text: str, **options: object) -> Experiment:
    experiment = read(text)
    return read(limits_experiment(experiment, resolve_arms(experiment), **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("resources", range(1, MOST_RESOURCES + 1))
def test_design_tells_resources_apart_from_each_other_and_from_products_of_two(resources: int) -> None:
    signs = [[1 if slowed else -1 for slowed in point] for point in two_level_design(resources)]
    columns = list(zip(*signs, strict=True))
    assert signs[0] == [-1] * resources
    assert signs[-1] == [1] * resources
    assert all(sum(column) == 0 for column in columns)
    for one, other in itertools.combinations(range(resources), 2):
        product = [a * b for a, b in zip(columns[one], columns[other], strict=True)]
        assert sum(product) == 0
        assert all(sum(a * b for a, b in zip(product, column, strict=True)) == 0 for column in columns)


def test_design_has_8_points_up_to_four_resources_and_16_beyond() -> None:
    assert [len(two_level_design(n)) for n in range(1, 9)] == [2, 4, 8, 8, 16, 16, 16, 16]


def test_too_many_resources_are_refused() -> None:
    with pytest.raises(ValueError, match="1 to 8"):
        two_level_design(9)


def test_first_arm_is_as_it_is_and_the_last_has_all_times_longer() -> None:
    derived = derive(TEXT)
    arms = resolve_arms(derived)
    assert (arms[0].name, arms[-1].name, len(arms)) == (AS_IS, EVERYTHING, 8)
    assert {arm.settings["synchronous_commit"] for arm in arms} == {"on"}
    assert {arm.settings["max_wal_size"] for arm in arms} == {"2GB"}
    assert set(arms[0].knobs["slowdown"].values()) == {"1.0"}
    assert set(arms[-1].knobs["slowdown"].values()) == {"1.5"}
    assert derived.hypothesis.arm == EVERYTHING
    assert derived.limits is not None
    assert derived.limits.of == "on"
    assert make_plan(derived).method.method == "interleaved"


def test_the_limits_of_the_demonstration_are_planned_for_less_than_five_minutes() -> None:
    text = resources.files("pgtrial.cli").joinpath("demo.toml").read_text(encoding="utf-8")
    plan = make_plan(derive(text))
    assert (plan.method.method, plan.blocks, len(plan.arms)) == ("interleaved", 6, 8)
    assert plan.estimate.total < 300


def test_another_arm_has_what_it_inherits() -> None:
    arms = resolve_arms(derive(TEXT, arm="off"))
    assert {arm.settings["synchronous_commit"] for arm in arms} == {"off"}
    assert {arm.settings["work_mem"] for arm in arms} == {"8MB"}


def test_declared_limits_of_the_disk_are_lowered_by_the_step() -> None:
    arms = resolve_arms(derive(TEXT, arm="limited", step=1.5))
    assert len(arms) == 16
    assert {arm.knobs["cgroup"]["write_iops"] for arm in arms} == {"150", "100"}
    assert {arm.knobs["cgroup"]["write_bytes"] for arm in arms} == {"9MB", f"{9 * 1024**2 * 2 // 3}B"}
    assert {arm.knobs["extensions"]["preload"] for arm in arms} == {"auto_explain, pg_stat_statements"}


def test_swappiness_keeps_the_group_in_which_it_governs() -> None:
    text = TEXT.replace(
        "[arms.limited.extensions]", '[arms.limited.sysctl]\n"vm.swappiness" = 1\n[arms.limited.extensions]'
    )

    arms = resolve_arms(derive(text, arm="limited", resources=["flush"]))

    assert {arm.knobs["cgroup"]["own_swappiness"] for arm in arms} == {"on"}
    assert {arm.knobs["sysctl"]["vm.swappiness"] for arm in arms} == {"1"}


def test_emulated_disk_becomes_the_tables_that_it_stands_for() -> None:
    derived = derive(TEXT + DISK, arm="emulated", resources=["write_iops", "flush"], step=2)
    arms = resolve_arms(derived)
    assert [arm.name for arm in arms] == [AS_IS, "flush", "write_iops", EVERYTHING]
    assert [arm.knobs["cgroup"]["write_iops"] for arm in arms] == ["300", "300", "150", "150"]
    assert {arm.variant.filesystem for arm in arms} == {(("size", "1GB"), ("type", "ext4"))}


def test_resources_are_chosen_by_short_or_full_name() -> None:
    derived = derive(TEXT, resources=["cpu", "slowdown.flush", "cpu"])
    assert derived.limits is not None
    assert derived.limits.resources == ("slowdown.cpu", "slowdown.flush")
    assert len(derived.arms) == 4


def test_data_of_own_loads_are_put_back_unless_the_file_says_otherwise() -> None:
    assert derive(TEXT).design.restore == "never"
    assert derive(TEXT + '[design]\nrestore = "each-block"\n').design.restore == "each-block"
    own = TEXT.replace('mix = "simple-update"', 'scenario = [{ name = "s", builtin = "tpcb-like" }]')
    assert derive(own).design.restore == "each-run"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TEXT, {"arm": "of"}, 'arm "of" does not exist'),
        (TEXT, {"resources": ["memory"]}, 'resource "memory" cannot be varied'),
        (TEXT, {"resources": ["autovacuum"]}, 'resource "autovacuum" cannot be varied'),
        (TEXT, {"resources": ["write_iops"]}, 'resource "write_iops" cannot be varied'),
        (TEXT, {"step": 1.0}, "the step is 1"),
        (TEXT.replace("clients = 4", "rate = 100"), {}, "arrive at a rate"),
        (
            TEXT.split("[target", maxsplit=1)[0]
            + '[target]\nkind = "server"\n[arms.a.postgresql]\nwork_mem = "1MB"\n[arms.b.postgresql]\nwork_mem = "2MB"',
            {},
            "a server that pgtrial starts",
        ),
    ],
)
def test_what_cannot_be_varied_is_said(text: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        derive(text, **options)


def test_arm_has_the_resources_that_it_declares() -> None:
    arms = {arm.name: arm for arm in resolve_arms(read(TEXT))}
    assert find_resources(arms["on"]) == tuple(f"slowdown.{key}" for key in ("cpu", "flush", "files", "generator"))
    assert find_resources(arms["limited"])[4:] == ("cgroup.write_iops", "cgroup.write_bytes")


def test_time_of_a_limit_is_its_reciprocal() -> None:
    assert log_time("slowdown", "1.5") == pytest.approx(math.log(1.5))
    assert log_time("cgroup", "100") - log_time("cgroup", "150") == pytest.approx(math.log(1.5))
    assert log_time("cgroup", "1MB") - log_time("cgroup", "2MB") == pytest.approx(math.log(2))


def test_resources_of_the_file_are_values_in_which_arms_differ() -> None:
    text = TEXT.replace("[target", '[limits]\nof = "on"\nresources = ["slowdown.cpu"]\n[target')
    messages = [problem.message for problem in examine(text, Path("/")).problems]
    assert messages == ['arm "on" has no value of "slowdown.cpu"']
    same = "\n".join(f"[arms.{name}.slowdown]\ncpu = 1.5\n" for name in ("on", "limited"))
    messages = [problem.message for problem in examine(text + same, Path("/")).problems]
    assert messages == ['all arms have the same value of "slowdown.cpu"']
    unknown = text.replace('["slowdown.cpu"]', '["slowdown.memory"]')
    assert "is no resource" in examine(unknown, Path("/")).problems[0].message
    assert "is empty" in examine(text.replace('["slowdown.cpu"]', "[]"), Path("/")).problems[0].message


PROVE = TEXT.replace("[target", "[limits]\nprove = true\n[target")


def prove(text: str) -> dict[str, Experiment]:
    experiment = read(text)
    return {arm: read(each) for arm, each in limits_to_prove(experiment, resolve_arms(experiment)).items()}


def test_control_and_the_claims_arm_are_proved() -> None:
    assert [*prove(PROVE)] == ["on", "off"]
    assert [*prove(PROVE + '[hypothesis]\narm = "limited"\n')] == ["on", "limited"]
    assert prove(TEXT) == {}


def test_placebo_is_not_proved() -> None:
    text = PROVE + '[hypothesis]\narm = "placebo"\n[design]\nplacebo = true\n'
    assert [*prove(text)] == ["on"]


def test_arm_times_and_budget_of_the_proof_are_those_of_the_file() -> None:
    wanted = 'arm = "limited"\nbudget = "20min"\nresources = ["slowdown.cpu", "cgroup.write_iops"]\n'
    (proof,) = prove(PROVE.replace("prove = true\n", f"prove = true\n{wanted}")).values()
    assert proof.limits is not None
    assert (proof.limits.of, proof.limits.resources) == ("limited", ("slowdown.cpu", "cgroup.write_iops"))
    assert (proof.design.budget, proof.design.blocks) == (1200, None)
    both = prove(PROVE.replace("prove = true\n", 'prove = true\nbudget = "20min"\n'))
    assert [each.design.budget for each in both.values()] == [600, 600]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PROVE.replace("prove = true", 'prove = true\nof = "on"'), "exclude each other"),
        (PROVE.replace("prove = true", 'prove = true\narm = "onn"'), 'arm "onn" does not exist'),
        (PROVE.replace("prove = true", 'arm = "on"'), 'required key "of" is missing'),
        (PROVE.replace("clients = 4", "clients = 4\nrate = 10"), "arrive at a rate"),
        (
            PROVE.replace("[target.postgresql]", '[target]\nkind = "server"\n[target.postgresql]'),
            "a server that pgtrial",
        ),
        (PROVE + '[design]\nsoak = "1h"\n', "a soak"),
    ],
)
def test_what_cannot_be_proved_is_said_with_the_place(text: str, message: str) -> None:
    problems = [problem for problem in examine(text, Path("/")).problems if problem.path.startswith("limits")]
    assert any(message in problem.message for problem in problems)
    assert all(problem.line for problem in problems if "missing" not in problem.message)


def test_memory_is_made_smaller_in_whole_pages_only_if_it_is_named() -> None:
    text = TEXT.replace('max_wal_size = "2GB"', 'max_wal_size = "2GB"\nshared_buffers = "100MB"')
    text = text.replace("write_iops = 150", 'write_iops = 150\nmemory = "1GB"')
    assert {arm.settings["shared_buffers"] for arm in resolve_arms(derive(text))} == {"100MB"}
    arms = resolve_arms(derive(text, arm="limited", resources=["cpu", "shared_buffers", "memory"]))
    assert {arm.settings["shared_buffers"] for arm in arms} == {"100MB", f"{8192 * 8533}B"}
    assert {arm.knobs["cgroup"]["memory"] for arm in arms} == {"1GB", f"{8192 * 87381}B"}


def test_reason_why_something_is_not_varied_is_given() -> None:
    for name, reason in (
        ("memory", "declares it"),
        ("locks", "no time of its own"),
        ("autovacuum", "once in a minute"),
    ):
        with pytest.raises(SpecError) as caught:
            derive(TEXT, resources=["cpu", name])
        assert reason in caught.value.detail


def test_memory_alone_is_refused() -> None:
    text = TEXT.replace("[target", '[limits]\nof = "on"\nresources = ["cgroup.memory"]\n[target')
    assert "name a time, too" in examine(text, Path("/")).problems[0].message


def test_arm_that_is_slowed_down_itself_is_slowed_down_further() -> None:
    text = TEXT.replace("[arms.limited.cgroup]", "[arms.limited.slowdown]\nflush = 4.0\n[arms.limited.cgroup]")
    arms = resolve_arms(derive(text, arm="limited", resources=["cpu", "flush"], step=2))
    assert [arm.knobs["slowdown"]["flush"] for arm in arms] == ["4.0", "8.0", "4.0", "8.0"]
    assert [arm.knobs["slowdown"]["cpu"] for arm in arms] == ["1.0", "1.0", "2.0", "2.0"]


def test_an_arm_keeps_a_load_of_its_own() -> None:
    own = """
[[workload.scenario]]
name = "work"
file = "work.sql"
[arms.own.workload]
protocol = "prepared"
clients = 2
variables = { rows = 1, "name" = "x y" }
scripts = { work = "own.sql" }
"""
    given = examine(TEXT.replace('mix = "simple-update"', "") + own, None).experiment
    assert given is not None

    written = examine(limits_experiment(given, resolve_arms(given), arm="own", resources=["cpu"]), None).experiment

    assert written is not None
    for arm in resolve_arms(written):
        assert arm.knobs["workload"] == {
            "protocol": "prepared",
            "clients": "2",
            "variables.rows": "1",
            "variables.name": "x y",
            "scripts.work": "own.sql",
        }


def test_an_arm_keeps_a_command_of_its_own() -> None:
    command = """
format = 1
[experiment]
name = "x"
[workload]
kind = "command"
command = ["true"]
[arms.one]
[arms.own.workload]
command = ["bash", "-c", 'echo "{clients}", done']
"""
    experiment = read(command)

    text = limits_experiment(experiment, resolve_arms(experiment), arm="own", resources=["cpu"])

    assert {arm.knobs["workload"]["command"] for arm in resolve_arms(read(text))} == {
        resolve_arms(experiment)[1].knobs["workload"]["command"]
    }


def with_pauses(factor: float = 1) -> Experiment:
    """An experiment with a script of its own, whose arm "own" makes its pauses longer."""
    own = f"""
[[workload.scenario]]
name = "work"
file = "work.sql"
[arms.own.workload]
pauses = {factor}
"""
    given = examine(TEXT.replace('mix = "simple-update"', "") + own, None).experiment
    assert given is not None
    return given


def test_pauses_of_scripts_are_made_longer_where_they_are_named() -> None:
    given = with_pauses(2)
    arms = resolve_arms(given)
    assert "workload.pauses" not in find_resources(arms[0])

    text = limits_experiment(given, arms, arm="own", resources=["cpu", "pauses"], sleeps={"own": 0.01})

    written = examine(text, None).experiment
    assert written is not None
    assert written.limits is not None
    assert written.limits.resources == ("slowdown.cpu", "workload.pauses")
    found = [arm.knobs["workload"]["pauses"] for arm in resolve_arms(written)]
    assert found == ["2.0", "3.0", "2.0", "3.0"]
    assert log_time("workload", "3.0") - log_time("workload", "2.0") == pytest.approx(math.log(1.5))


@pytest.mark.parametrize("sleeps", [{}, {"on": 1.0}])
def test_an_arm_whose_scripts_have_no_pauses_has_none_to_vary(sleeps: dict[str, float]) -> None:
    given = with_pauses()

    with pytest.raises(SpecError, match='resource "pauses" cannot be varied') as refused:
        limits_experiment(given, resolve_arms(given), arm="own", resources=["pauses"], sleeps=sleeps)

    assert "no \\sleep" in refused.value.detail


def times_of(resources: tuple[str, ...] = ("cpu", "pauses"), **options: Any) -> tuple[float, float]:
    """Seconds of warm-up, and measured."""
    given = with_pauses()
    text = limits_experiment(given, resolve_arms(given), arm="own", resources=resources, **options)
    written = examine(text, None).experiment
    assert written is not None
    warmup = written.workload.warmup
    assert isinstance(warmup, float)
    return warmup, written.workload.duration


def test_a_run_has_many_of_the_pauses_that_are_made_longer() -> None:
    """Clients begin in step: of a few pauses one more or less in a run is a large part."""
    assert times_of(sleeps={"own": 0.01}) == (0.5, 2)
    assert times_of(sleeps={"own": 0.0}) == (0.5, 2)
    assert times_of(sleeps={"own": 1.0}) == (5, 30)
    assert times_of(sleeps={"own": 1.0}, step=2) == (6, 40)
    assert times_of(("cpu",), sleeps={"own": 1.0}) == (0.5, 2)
    assert times_of(sleeps={"own": 0.1}, duration="3s", warmup="500ms") == (0.5, 3)
    assert times_of(sleeps={"own": math.inf}, duration="9s", warmup=1) == (1, 9)


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"sleeps": {"own": 1.0}, "duration": "29s"}, "a duration of 29 s has too few pauses", "--duration 30s"),
        ({"sleeps": {"own": 1.0}, "warmup": 4}, "a warmup of 4 s has too few pauses", "--warmup 5s"),
        ({"sleeps": {"own": math.inf}}, "known only while they run", "--duration and --warmup"),
        ({"sleeps": {"own": math.inf}, "duration": 60}, "known only while they run", "--duration and --warmup"),
    ],
)
def test_times_that_have_too_few_pauses_are_refused(options: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(SpecError, match=message) as refused:
        times_of(**options)

    assert hint in (refused.value.hint or "")


@pytest.mark.parametrize(("table", "resource"), [("workload", "pauses"), ("slowdown", "flush")])
def test_a_time_that_would_be_longer_than_an_arm_can_have_it_is_refused(table: str, resource: str) -> None:
    own = with_pauses().model_dump(mode="json", exclude_unset=True)
    given = Experiment.model_validate({**own, "arms": {"own": {table: {resource: 8.0}}}})
    arms = resolve_arms(given)

    assert limits_experiment(given, arms, resources=[resource], sleeps={"own": 0.01}, step=1.25)
    with pytest.raises(SpecError, match=f"{resource} of own would be 12 times as long") as refused:
        limits_experiment(given, arms, resources=[resource], sleeps={"own": 0.01})
    assert "1.25" in (refused.value.hint or "")
