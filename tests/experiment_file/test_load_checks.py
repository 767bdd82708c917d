from pathlib import Path

import pytest

from pgtrial.design.method_case import HostFacts
from pgtrial.design.methods import judge_methods
from pgtrial.design.plan import make_plan
from pgtrial.errors import SpecProblem
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.code_uses import find_code_uses
from pgtrial.experiment_file.load import examine, parse_experiment
from pgtrial.experiment_file.reach import files_in, find_outside

HEAD = 'format = 1\n[experiment]\nname = "x"\n'
MIX = '[workload]\nmix = "oltp"\n'
OWN = '[workload]\nscenario = [{ name = "read", file = "read.sql" }]\n'
COMMAND = '[workload]\nkind = "command"\ncommand = ["a"]\n'
PROTOCOLS = '[arms.a.workload]\nprotocol = "simple"\n[arms.b.workload]\nprotocol = "prepared"\n'


SINGLE = '[workload]\nmix = "oltp"\nclients = 40\n'
POOL = '[workload]\nmix = "oltp"\nclients = [4, 8]\n[arms.a]\n[arms.b.pgbouncer]\n'


def find(text: str, folder: Path | None = None) -> dict[str, SpecProblem]:
    return {problem.path: problem for problem in examine(HEAD + text, folder).problems}


@pytest.mark.parametrize(
    "text",
    [
        MIX + PROTOCOLS,
        OWN + "[arms.a]\n[arms.b.workload]\nscripts = { read = 'new.sql' }\nvariables = { batch = 100, name = 'x' }\n",
        OWN + "[arms.a.workload]\nconnect = 'once'\n[arms.b.workload]\nconnect = 'each-transaction'\n",
        MIX + '[factors.protocol]\nknob = "workload"\nlevels = ["simple", "extended", "prepared"]\n',
        MIX + PROTOCOLS + '[target.workload]\nconnect = "each-transaction"\n',
        COMMAND + "[arms.a]\n[arms.b.workload]\ncommand = ['a', '--new']\n",
        POOL + "pool_size = 8\nmax_client_conn = 8\n",
        SINGLE + "[arms.a]\n[arms.b.workload]\nclients = 400\n[arms.b.pgbouncer]\npool_mode = 'transaction'\n",
        SINGLE + '[factors.clients]\nknob = "workload"\nlevels = [40, 400]\n',
        COMMAND + "clients = 4\n[arms.a]\n[arms.b.workload]\nclients = 8\n",
        POOL + "pool_mode = 'transaction'\npool_size = 1\n",
        POOL + "pool_size = 1\n[arms.b.workload]\nconnect = 'each-transaction'\n",
        MIX + '[factors.pool_size]\nknob = "pgbouncer"\nlevels = [20, 40]\n',
        MIX + PROTOCOLS + '[target]\nkind = "server"\n[dataset]\nkind = "pgbench"\n',
        '[workload]\nmix = "select-only"\nunit = "a row"\n[arms.a]\n[arms.b.workload]\nunit = "a row"\n',
    ],
)
def test_what_is_right_is_not_refused(text: str) -> None:
    assert find(text) == {}


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (
            MIX + '[factors.unit]\nknob = "workload"\nlevels = ["a row", "two rows"]\n',
            "factors.unit",
            '"unit" of knob "workload" cannot be a factor',
        ),
        (
            OWN + "[arms.a]\n[arms.b.workload]\nvariables = { a = nan }\n",
            "arms.b.workload.variables.a",
            "expected a finite number, got nan",
        ),
        (
            OWN + "[arms.a]\n[arms.b.workload]\nvariables = { a = [1] }\n",
            "arms.b.workload.variables.a",
            "expected a text or a number",
        ),
        (
            OWN + "[arms.a]\n[arms.b.workload]\nvariables = { a = true }\n",
            "arms.b.workload.variables.a",
            "expected a text or a number",
        ),
        (
            OWN + "[arms.a]\n[arms.b.workload]\npauses = nan\n",
            "arms.b.workload.pauses",
            "expected a finite number, got nan",
        ),
        (
            OWN + "[arms.a]\n[arms.b.workload]\nvariables = { 'a b' = 1 }\n",
            'arms.b.workload.variables."a b"',
            'invalid name of a variable: "a b"',
        ),
        (
            OWN + "[arms.a]\n[arms.b.workload]\nscripts = { write = 'w.sql' }\n",
            "arms.b.workload.scripts.write",
            "exist",
        ),
        (POOL + "pool_mode = 'transaction'\n[arms.b.workload]\nclients = 9\n", "arms.b.workload.clients", "one level"),
        (SINGLE + "rate = 5\n[arms.a]\n[arms.b.workload]\nclients = 9\n", "arms.b.workload.clients", "no rate"),
        (SINGLE + "[arms.a]\n[arms.b.workload]\nclients = 1\n", "arms.b.workload.clients", "fewer than the 3 scen"),
        (SINGLE + "[arms.a]\n[arms.b.workload]\nclients = 0\n", "arms.b.workload.clients", "it must be at least 1"),
        (
            SINGLE + "[arms.a]\n[arms.b.workload]\nclients = 90\n[arms.b.pgbouncer]\npool_size = 50\n",
            "arms.b.pgbouncer.pool_size",
            "of 90 clients 40 would wait",
        ),
        (MIX + "[arms.a]\n[arms.b.workload]\ncommand = ['x']\n", "arms.b.workload.command", "has no meaning"),
        (COMMAND + "[arms.a]\n[arms.b.workload]\nprotocol = 'simple'\n", "arms.b.workload.protocol", "has no meaning"),
        (MIX + "[arms.a]\n[arms.b.workload]\nprotocol = 'fast'\n", "arms.b.workload.protocol", "fast"),
        (MIX + "[arms.a]\n[arms.b.workload]\nprotocl = 'simple'\n", "arms.b.workload.protocl", "protocl"),
        (MIX + "[arms.a]\n[arms.b.workload]\nvariables = { 'a b' = 1 }\n", 'arms.b.workload.variables."a b"', ""),
        (
            POOL + "pool_mode = 'session'\npool_size = 5\n",
            "arms.b.pgbouncer.pool_size",
            "of 8 clients 3 would wait until",
        ),
        (POOL + "max_client_conn = 5\n", "arms.b.pgbouncer.max_client_conn", "lets 5 clients in, and the load has 8"),
        (POOL + "pool_mode = 'pipeline'\n", "arms.b.pgbouncer.pool_mode", 'invalid value for "pool_mode": "pipeline"'),
        (POOL + "pool_size = 0\n", "arms.b.pgbouncer.pool_size", ""),
        (
            POOL + "pool_size = 9\n[target]\nkind = 'server'\n",
            "arms.b.pgbouncer",
            'knob "pgbouncer" cannot be set on an existing server',
        ),
        (
            MIX + "[arms.a]\n[arms.b.workload]\nunit = 'ten'\n",
            "arms.b.workload.unit",
            'a unit of work is "ten" in arm "b"',
        ),
        (
            '[workload]\nkind = "fio"\n[target.fio]\npattern = "read"\nsize = "1MB"\n' + PROTOCOLS,
            "arms.a.workload",
            'knob "workload" has no meaning with kind = "fio"',
        ),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(text: str, path: str, message: str) -> None:
    found = find(text)

    assert path in found or any(each.startswith(path) for each in found), found
    assert message in found.get(path, next(iter(found.values()))).message


def test_a_unit_is_inherited() -> None:
    text = MIX + "[arms.a.workload]\nunit = 'ten'\n[arms.b]\ninherit = 'a'\n[arms.c]\ninherit = 'b'\n"

    assert find(text) == {}
    assert "arms.d.workload.unit" in find(text + "[arms.d]\n")


def test_a_script_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "read.sql").write_text("SELECT 1;")

    found = find(OWN + "[arms.a]\n[arms.b.workload]\nscripts = { read = 'new.sql' }\n", tmp_path)

    assert "does not exist" in found["arms.b.workload.scripts.read"].message


def test_scripts_of_arms_lie_beneath_the_directory_of_the_experiment(tmp_path: Path) -> None:
    text = HEAD + OWN + "[arms.a]\n[arms.b.workload]\nscripts = { read = '/etc/hostname' }\n"
    experiment = parse_experiment(text, "x", tmp_path, check_files=False).experiment

    (problem,) = find_outside(files_in(experiment), tmp_path)

    assert problem.path == "arms.b.workload.scripts.read"


def test_the_command_of_an_arm_is_code_that_is_executed() -> None:
    text = HEAD + COMMAND + "[arms.a]\n[arms.b.workload]\ncommand = ['b', 'x y']\n"
    experiment = parse_experiment(text, "x", Path("/")).experiment

    uses = find_code_uses(experiment, resolve_arms(experiment), {})

    assert [(use.where, use.what) for use in uses] == [
        ("workload.command", "the command a"),
        ("arms.b.workload.command", "the command b x y"),
    ]


def test_arms_that_differ_in_their_load_may_take_turns_but_are_not_switched() -> None:
    text = HEAD + '[workload]\nmix = "select-only"\nduration = "30s"\n' + PROTOCOLS
    experiment = parse_experiment(text, "x", Path("/")).experiment
    facts = HostFacts(local=True, cores=((0,), (1,)), memory_available=8 << 30)
    plan = make_plan(experiment, facts)

    valid = {each.method for each in judge_methods(experiment, plan.arms, plan.levels, facts) if each.valid}

    assert valid == {"interleaved", "duet", "blocks"}


def test_what_an_arm_declares_is_among_its_settings() -> None:
    text = (
        HEAD + OWN + "[arms.a]\n[arms.b.workload]\nscripts = { read = 'n.sql' }\nvariables = { k = 2.5 }\nunit = 'u'\n"
    )
    text = text.replace("[workload]\n", "[workload]\nunit = 'u'\n")

    experiment = parse_experiment(text, "x", Path("/"), check_files=False).experiment

    assert [dict(arm.knobs.get("workload", {})) for arm in resolve_arms(experiment)] == [
        {},
        {"scripts.read": "n.sql", "variables.k": "2.5"},
    ]


FAR = '[load]\nhosts = ["ssh://g", "ssh://h"]\n'


def test_a_load_may_come_from_other_machines():
    assert find(SINGLE + FAR + PROTOCOLS) == {}


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (SINGLE + FAR + "[target]\nkind = 'server'\n", "load.hosts", "only pgbench on a throw-away server"),
        (COMMAND + FAR, "load.hosts", "only pgbench on a throw-away server"),
        (SINGLE + FAR + "[design]\nsoak = '1h'\n", "load.hosts", "a soak has its load from"),
        (SINGLE + FAR + "[target]\nhost = 'ssh://h'\n", "load.hosts[1]", "is the machine of the server"),
        (SINGLE + FAR.replace("ssh://h", "ssh://g"), "load.hosts[1]", "is listed twice"),
        (SINGLE + FAR + "[arms.a]\n[arms.b.pgbouncer]\npool_size = 9\n", "arms.b.pgbouncer.pool_size", "does not go"),
        (MIX + "clients = [3, 40]\n" + FAR, "workload.clients", "3 clients are too few for 2 machines"),
        (
            '[workload]\nclients = 9\nscenario = [{ name = "a", file = "a.sql" }, '
            '{ name = "b", file = "b.sql", sessions = 1 }]\n' + FAR,
            "workload.scenario[1].sessions",
            "a constant number of sessions is not divided",
        ),
        (SINGLE + '[load]\nhosts = ["gen1"]\n', "load.hosts[0]", ""),
        (SINGLE + "[load]\nhosts = []\n", "load.hosts", ""),
        (SINGLE + FAR + 'server = "db1; rm"\n', "load.server", ""),
    ],
)
def test_what_does_not_go_with_a_load_from_other_machines_is_said(text, path, message):
    problems = find(text)

    assert path in problems, problems
    assert message in problems[path].message


def test_generators_on_other_machines_take_no_turns() -> None:
    experiment = parse_experiment(HEAD + SINGLE + FAR + PROTOCOLS, "x", Path("/")).experiment
    facts = HostFacts(local=True, cores=((0,), (1,)), memory_available=8 << 30)
    plan = make_plan(experiment, facts)

    valid = {each.method for each in judge_methods(experiment, plan.arms, plan.levels, facts) if each.valid}

    assert valid == {"blocks"}
