from pathlib import Path

import pytest

from pgtrial.errors import SpecProblem
from pgtrial.experiment_file.arm_checks import OWNED
from pgtrial.experiment_file.load import examine

HEAD = 'format = 1\n[experiment]\nname = "x"\n'
LOAD = '[workload]\nmix = "olap"\n'
ARMS = "[arms.a.postgresql]\nwork_mem = '1MB'\n[arms.b.postgresql]\nwork_mem = '2MB'\n"
FACTORS = "[factors.work_mem]\nlevels = ['1MB', '2MB']\n"


def find(text: str, folder: Path = Path("/nowhere")) -> dict[str, SpecProblem]:
    return {problem.path: problem for problem in examine(HEAD + text, folder).problems}


def scenario(**keys: object) -> str:
    rendered = "".join(f"{key} = {value!r}\n" for key, value in keys.items())
    return f"[[workload.scenario]]\n{rendered}"


@pytest.mark.parametrize(
    "text",
    [
        LOAD + ARMS,
        LOAD + FACTORS,
        LOAD + "[arms.a]\n[design]\nplacebo = true\n",
        LOAD + ARMS + "[hypothesis]\narm = 'b'\nscenario = 'read'\n",
        LOAD + FACTORS + "[hypothesis]\narm = 'work_mem=2MB'\n",
        LOAD + ARMS + "[hypothesis]\narm = 'placebo'\n[design]\nplacebo = true\n",
        LOAD + "[arms.control]\n[arms.placebo]\n",
        "[workload]\n" + scenario(name="a", builtin="select-only") + scenario(name="b", builtin="tpcb-like") + ARMS,
        "[workload]\nmix = 'oltp'\nclients = 1\nshare = 'transactions'\n" + ARMS,
        "[workload]\nmix = 'select-only'\nclients = 1\n" + ARMS,
        "[workload]\nmix = 'olap'\nclients = [4, 8]\nrate = [10, 20]\n" + ARMS,
        "[workload]\nmix = 'olap'\nclients = [8, 8]\nrate = [10, 20]\n" + ARMS,
        LOAD + "[arms.a]\n[arms.b]\ninherit = 'a'\n[arms.c]\ninherit = 'b'\n",
    ],
)
def test_what_is_right_is_not_refused(text: str) -> None:
    assert find(text) == {}


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (LOAD + ARMS + FACTORS, "factors", "exclude each other"),
        (LOAD, "arms", "at least two arms, got 0"),
        (LOAD + "[arms.a]\n", "arms", "at least two arms, got 1"),
        (LOAD + "[arms.a]\n[arms.A]\n", "arms.A", "differ only in case"),
        (LOAD + "[arms.a]\n[arms.'b/c']\n", 'arms."b/c"', "invalid name of an arm"),
        (LOAD + "[arms.a]\n[arms.placebo]\n[design]\nplacebo = true\n", "arms.placebo", "copy of the control"),
        (LOAD + "[arms.a]\n[arms.b]\ninherit = 'c'\n", "arms.b.inherit", '"c" does not exist'),
        (LOAD + "[arms.a]\n[arms.b]\ninherit = 'b'\n", "arms.b.inherit", "inherits from itself"),
        (LOAD + "[arms.a]\ninherit='b'\n[arms.b]\ninherit = 'a'\n", "arms.a.inherit", "inherits from itself"),
        (LOAD + FACTORS + "[factors.b]\nsetting = 'work_mem'\nlevels = [1, 2]\n", "factors.b", 'both vary "work_mem"'),
        (LOAD + "[factors.a]\nlevels = [1, 2, 1]\n", "factors.a.levels[2]", '"1" of factor "a" appears twice'),
        (LOAD + "".join(f"[factors.f{n}]\nlevels = [1, 2, 3]\n" for n in range(4)), "factors", "81 combinations"),
        (LOAD + ARMS + "[hypothesis]\narm = 'a'\n", "hypothesis.arm", "is the control"),
        (LOAD + ARMS + "[hypothesis]\narm = 'c'\n", "hypothesis.arm", '"c" does not exist'),
        (LOAD + FACTORS + "[hypothesis]\narm = '2MB'\n", "hypothesis.arm", "does not exist"),
        (LOAD + ARMS + "[hypothesis]\nmetric = 'pgbench.tpm'\n", "hypothesis.metric", "unrecognized metric"),
        (LOAD + ARMS + "[hypothesis]\nscenario = 'reed'\n", "hypothesis.scenario", '"reed" does not exist'),
        (LOAD + ARMS + "[hypothesis]\nmargin = 0\nexpect = 'equivalent'\n", "hypothesis.margin", "above 0"),
        ("[workload]\n" + ARMS, "workload", "neither a mix nor a scenario"),
        (LOAD + scenario(name="a", builtin="select-only") + ARMS, "workload.mix", "exclude each other"),
        ("[workload]\n" + scenario(name="a") + ARMS, "workload.scenario[0]", "has no script"),
        (
            "[workload]\n" + scenario(name="a", builtin="select-only", share=1, sessions=1) + ARMS,
            "workload.scenario[0].sessions",
            "both a share and a constant number",
        ),
        (
            "[workload]\n" + scenario(name="a", builtin="select-only") * 2 + ARMS,
            "workload.scenario[1].name",
            "appears twice",
        ),
        (
            "[workload]\n" + scenario(name="a", builtin="select-only", sessions=2) + ARMS,
            "workload.scenario",
            "the load levels change nothing",
        ),
        (
            "[workload]\nshare = 'transactions'\n"
            + scenario(name="a", builtin="select-only")
            + scenario(name="b", builtin="select-only", sessions=2)
            + ARMS,
            "workload.scenario[1].sessions",
            "has no meaning",
        ),
        ("[workload]\n" + scenario(name="a", file="none.sql") + ARMS, "workload.scenario[0].file", "does not exist"),
        ("[workload]\nmix = 'olap'\nclients = [8, 2]\n" + ARMS, "workload.clients[1]", "2 clients are too few for 3"),
        (
            "[workload]\nmix = 'olap'\nclients = [4, 5, 6]\nrate = [1, 2]\n" + ARMS,
            "workload.rate",
            "clients has 3 levels",
        ),
        ("[workload]\nmix = 'olap'\nclients = [4, 4]\n" + ARMS, "workload.clients[1]", "load level 4 appears twice"),
        ("[workload]\nmix = 'olap'\nduration = '1500ms'\n" + ARMS, "workload.duration", "whole number of seconds"),
        (LOAD + ARMS + "[dataset]\nkind = 'sql'\n", "dataset", "needs data to load or a set-up file"),
        (LOAD + ARMS + "[dataset]\nkind = 'sql'\nscale = 3\n", "dataset.scale", "has no meaning"),
        (LOAD + ARMS + "[dataset]\nkind = 'sql'\nsetup='x'\n", "workload.mix", "needs pgbench's tables"),
        (LOAD + ARMS + "[dataset]\nsetup = 'none.sql'\n", "dataset.setup", "does not exist"),
        (LOAD + ARMS + f"[dataset]\nsetup = '/{'x' * 300}'\n", "dataset.setup", "cannot be read: File name too long"),
        (LOAD + ARMS + '[dataset]\nsetup = "a\\u0000"\n', "dataset.setup", "does not exist"),
        (LOAD + ARMS + "[target]\ndirectory = '/no/where'\n", "target.directory", "does not exist"),
        (LOAD + ARMS + f"[target]\ndirectory = '/{'x' * 300}'\n", "target.directory", "does not exist"),
        (LOAD + ARMS + "[target]\ndirectory = '~no such user/data'\n", "target.directory", "is not an absolute path"),
        (LOAD + ARMS + f"[target.storage]\ndata = '/{'x' * 300}'\n", "target.storage.data", "does not exist"),
        (LOAD + ARMS + "[target]\ndirectory = 'here'\n", "target.directory", "not an absolute path"),
        (LOAD + ARMS + "[target]\npostgres = '15.4'\n", "target.postgres", "not a major version"),
        (LOAD + ARMS + "[design]\nblocks = 3\nbudget = '1h'\n", "design.budget", "exclude each other"),
        (
            LOAD + ARMS + "[target.postgresql]\nwork_mem = 1\nWork_Mem = 2\n",
            "target.postgresql.Work_Mem",
            "appears twice",
        ),
    ],
)
def test_parts_that_contradict_each_other_are_refused(text: str, path: str, message: str) -> None:
    assert message in find(text)[path].message


def test_a_claim_is_about_an_arm_beside_the_control() -> None:
    problem = find(LOAD + ARMS + "[hypothesis]\narm = 'c'\n[design]\nplacebo = true\n")["hypothesis.arm"]

    assert "Arms beside the control are: b, placebo." in problem.hint


@pytest.mark.parametrize("setting", OWNED)
def test_settings_by_which_pgtrial_reaches_its_cluster_are_refused_with_the_reason(setting: str) -> None:
    in_arm = find(LOAD + ARMS + f"[target.postgresql]\n{setting} = 'x'\n")[f"target.postgresql.{setting}"]
    in_factor = find(LOAD + f"[factors.{setting}]\nlevels = ['x', 'y']\n")[f"factors.{setting}"]

    assert in_arm.message == in_factor.message == f'setting "{setting}" cannot be set in a throw-away cluster'
    assert len(in_arm.hint) > 30


def test_scripts_have_to_be_readable_files_with_something_in_them(tmp_path: Path) -> None:
    (tmp_path / "empty.sql").touch()
    (tmp_path / "folder.sql").mkdir()
    (tmp_path / "good.sql").write_text("SELECT 1;")
    files = ("empty.sql", "folder.sql", "god.sql", "good.sql")
    text = "[workload]\n" + "".join(scenario(name=f"s{n}", file=name) for n, name in enumerate(files)) + ARMS

    problems = find(text, tmp_path)

    assert {path: problem.message.rpartition('"')[2] for path, problem in problems.items()} == {
        "workload.scenario[0].file": " is empty",
        "workload.scenario[1].file": " is not a file",
        "workload.scenario[2].file": " does not exist",
    }
    assert 'Perhaps you meant "good.sql".' in problems["workload.scenario[2].file"].hint


def test_without_the_file_system_a_missing_script_is_no_error() -> None:
    text = "[workload]\n" + scenario(name="a", file="none.sql") + ARMS + "[target]\ndirectory = '/no/where'\n"

    assert examine(HEAD + text, None).problems == ()
