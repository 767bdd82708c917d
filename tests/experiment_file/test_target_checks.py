from collections.abc import Callable
from pathlib import Path

import pytest

from pgtrial.errors import SpecProblem
from pgtrial.experiment_file.arm_checks import OWNED_BY_SERVER
from pgtrial.knobs import HOST_KNOBS, KNOBS

Find = Callable[..., dict[str, SpecProblem]]
ARMS = "[arms.a]\n[arms.b]\n"
SERVER = ARMS + "[target]\nkind = 'server'\n"
EXISTING = SERVER + "database = 'shop'\n"
TABLES = {
    "server": "postgres = '16'",
    "storage": "wal = '/'",
    "filesystem": "options = 'noatime'",
    "cgroup": "cpus = 1",
    "huge_pages": "size = '2MB'",
    "postgresql": "work_mem = '1MB'",
    "sysctl": "'vm.swappiness' = 1",
    "block_device": "read_ahead_kb = 8",
    "transparent_huge_pages": "enabled = 'never'",
    "memory_pressure": "share = '10%'",
    "sql": "apply = 'ANALYZE'",
    "extensions": "create = ['pg_prewarm']",
    "tracing": "throttling = 'if-possible'",
}


@pytest.mark.parametrize(
    "text",
    [
        SERVER,
        SERVER + "connection = 'service=bench'\npostgres = 16\nrestart = ['systemctl', 'restart', 'postgresql']\n",
        SERVER + "[design]\nrestore = 'each-block'\n[dataset]\nscale = 3\n",
        EXISTING + "[dataset]\nkind = 'existing'\n",
        EXISTING + "copy_of = 'erp'\n[dataset]\nkind = 'existing'\n",
        EXISTING + "[dataset]\nkind = 'existing'\nscale = 3\n[design]\nrestore = 'never'\n",
        ARMS + "[target]\nhost = 'ssh://db'\ndirectory = '/no/where'\n",
    ],
)
def test_a_target_that_fits_is_not_refused(find: Find, text: str) -> None:
    assert find(text, Path("/nowhere")) == {}


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (ARMS + "[target]\nconnection = 'host=db'\n", "target.connection", 'no meaning with kind = "throwaway"'),
        (ARMS + "[target]\nrestart = ['x']\n", "target.restart", 'no meaning with kind = "throwaway"'),
        (ARMS + "[target]\ndatabase = 'x'\n", "target.database", 'no meaning with kind = "throwaway"'),
        (ARMS + "[target]\ncopy_of = 'x'\n", "target.copy_of", 'no meaning with kind = "throwaway"'),
        (SERVER + "copy_of = 'x'\n", "target.copy_of", "is a copy of none"),
        (EXISTING + "copy_of = 'shop'\n", "target.copy_of", "cannot be a copy of itself"),
        (SERVER + "directory = '/tmp'\n", "target.directory", 'no meaning with kind = "server"'),
        (SERVER + "postgres = '16.1'\n", "target.postgres", "not a major version"),
        (ARMS + "[target]\npostgres = 16\n[target.server]\npostgres = 17\n", "target.server.postgres", "given twice"),
        (ARMS + "[dataset]\nkind = 'existing'\n", "dataset.kind", "needs a database that is there"),
        (SERVER + "[dataset]\nkind = 'existing'\n", "dataset.kind", "needs a database that is there"),
        (EXISTING, "target.database", 'kind = "pgbench" of [dataset] has no meaning'),
        (EXISTING + "[dataset]\nkind = 'pgbench'\n", "dataset.kind", "nothing is made in an existing database"),
        (EXISTING + "[dataset]\nkind = 'existing'\nsetup = 'x.sql'\n", "dataset.setup", "has no meaning"),
        (EXISTING + "[dataset]\nkind = 'existing'\nforeign_keys = true\n", "dataset.foreign_keys", "has no meaning"),
        (
            EXISTING + "[dataset]\nkind = 'existing'\n[design]\nrestore = 'each-run'\n",
            "design.restore",
            "an existing database is not put back",
        ),
        (SERVER + "database = ''\n", "target.database", "a printable name of 1 to 63 bytes"),
        (SERVER + "connection = 'user=me password=hush'\n", "target.connection", "no password belongs in a file"),
        (SERVER + "connection = 'postgresql://me:hush@db'\n", "target.connection", "no password belongs in a file"),
        (SERVER + "connection = 'db'\n", "target.connection", "not a connection string"),
        (SERVER + "host = 'ssh://-oX'\n", "target.host", "is not a name of a host"),
        (SERVER + "host = 'db'\n", "target.host", "expected an address"),
        (SERVER + "restart = ['systemctl restart x']\n", "target.restart", '"systemctl restart x" is not a program'),
        (SERVER + "restart = ['-x']\n", "target.restart", '"-x" is not a program'),
        (SERVER + "restart = ['A=1', 'x']\n", "target.restart", '"A=1" is not a program'),
    ],
)
def test_a_target_that_contradicts_itself_is_refused(find: Find, text: str, path: str, message: str) -> None:
    problems = find(text, Path("/tmp"))

    assert path in problems
    assert message in problems[path].message
    assert problems[path].hint or path == "target.database"
    assert "hush" not in problems[path].message + problems[path].hint


def test_a_command_in_one_text_is_taken_apart_in_the_hint(find: Find) -> None:
    hint = find(SERVER + "restart = ['systemctl restart x']\n")["target.restart"].hint

    assert '["systemctl", "restart", "x"]' in hint


@pytest.mark.parametrize("knob", TABLES)
def test_an_existing_server_keeps_its_programs_its_data_and_its_group(find: Find, knob: str) -> None:
    problems = find(SERVER + f"[target.{knob}]\n{TABLES[knob]}\n")
    in_arm = find(SERVER + f"[arms.b.{knob}]\n{TABLES[knob]}\n")

    assert list(problems) == ([f"target.{knob}"] if KNOBS[knob].not_on_server else [])
    assert list(in_arm) == ([f"arms.b.{knob}"] if KNOBS[knob].not_on_server else [])
    assert all("on an existing server" in problem.message for problem in problems.values())


def test_a_factor_of_a_knob_that_a_server_cannot_have_is_refused_once(find: Find) -> None:
    text = "[target]\nkind = 'server'\n[factors.cpus]\nknob = 'cgroup'\nlevels = [1, 2, 3]\n"

    assert list(find(text)) == ["factors.cpus.knob"]


def test_libraries_are_loaded_only_by_a_restart(find: Find) -> None:
    preload = "[target.extensions]\npreload = ['auto_explain']\n"
    restart = "restart = ['service', 'postgresql', 'restart']\n"

    assert "needs a restart" in find(SERVER + preload)["target.extensions.preload"].message
    assert find(SERVER + restart + preload) == {}


@pytest.mark.parametrize("knob", [knob.name for knob in HOST_KNOBS if not knob.not_on_server])
def test_the_machine_of_the_server_has_to_be_known_before_it_is_changed(find: Find, knob: str) -> None:
    table = f"[target.{knob}]\n{TABLES[knob]}\n"

    problems = find(SERVER + "connection = 'host=db'\n" + table)
    assert list(problems) == [f"target.{knob}"]
    assert "would change this machine" in problems[f"target.{knob}"].message
    assert find(SERVER + "connection = 'host=db'\nhost = 'ssh://db'\n" + table) == {}
    assert find(SERVER + "connection = 'host=db'\n[target.postgresql]\nwork_mem = '1MB'\n") == {}


@pytest.mark.parametrize("setting", OWNED_BY_SERVER)
def test_settings_that_would_take_the_server_away_are_refused(find: Find, setting: str) -> None:
    in_arm = find(SERVER + f"[arms.b.postgresql]\n{setting} = 'x'\n")[f"arms.b.postgresql.{setting}"]
    in_factor = find(f"[target]\nkind = 'server'\n[factors.{setting}]\nlevels = ['x', 'y']\n")[f"factors.{setting}"]

    assert in_arm.message == in_factor.message == f'setting "{setting}" cannot be set on an existing server'


def test_the_log_of_an_existing_server_may_be_varied(find: Find) -> None:
    assert find(SERVER + "[arms.b.postgresql]\nlogging_collector = 'off'\nlog_directory = 'x'\n") == {}


def test_the_scale_of_existing_tables_has_to_be_said_to_a_mix_that_needs_it(find: Find) -> None:
    existing = EXISTING + "writes = true\n[dataset]\nkind = 'existing'\n"

    problems = find(existing, mix="oltp")
    assert list(problems) == ["workload.mix"]
    assert "Add scale to [dataset]" in problems["workload.mix"].hint
    assert find(existing + "scale = 3\n", mix="oltp") == {}
    assert find(existing, mix="tpcb-like") == {}
