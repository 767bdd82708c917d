import json
import os
import tempfile
from pathlib import Path

import pytest

from pgtrial.cli.checked import check_text
from pgtrial.cli.main import main
from pgtrial.errors import SpecError
from pgtrial.postgres.programs import Programs
from support.programs import needs_pgbouncer

GOOD = """\
format = 1
[experiment]
name = "small"
[target]
postgres = "16"
[workload]
mix = "olap"
[arms.a.postgresql]
shared_buffers = "1GB"
[arms.b.postgresql]
shared_buffers = "2GB"
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host is looked at for a moment only."""
    monkeypatch.setattr("pgtrial.cli.check.SAMPLE", 0.02)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("e.toml")
    path.write_text(GOOD)
    return path


def test_a_good_file_is_ok_with_the_facts(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(file)]) == 0

    out = capsys.readouterr().out
    assert out.startswith("ok: e.toml\n")
    assert "a (control), b" in out
    assert "12 in 6 blocks" in out
    assert "checked against PostgreSQL 16" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_server_that_was_not_asked_is_said_to_be_so(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(GOOD.replace('postgres = "16"', 'kind = "server"').replace("shared_buffers", "work_mem"))

    assert main(["check", "--no-host", str(file)]) == 0

    assert "note: the server has not been asked: --connect says what its role lacks" in capsys.readouterr().out


def test_errors_of_the_file_and_of_its_settings_come_together_in_order(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        GOOD.replace('mix = "olap"', "mix = 3").replace('"1GB"', '"1 gig"').replace("[arms.b", "[arms.c]\nx=1\n[arms.b")
    )
    file.write_text(text.replace('shared_buffers = "2GB"', "io_method = 'sync'"))

    assert main(["check", str(file)]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert [line for line in captured.err.splitlines() if line.startswith("  e.toml")] == [
        '  e.toml:7: workload.mix: invalid value for "mix": 3',
        '  e.toml:9: arms.a.postgresql.shared_buffers: invalid value for setting "shared_buffers": "1 gig"',
        '  e.toml:11: arms.c.x: unrecognized key "x"',
        '  e.toml:13: arms.b.postgresql.io_method: unrecognized setting "io_method" for PostgreSQL 16',
    ]
    assert "hint: PostgreSQL 18 has it." in captured.err


def test_a_file_of_a_command_whose_figures_would_be_wrong_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file.parent / "a.cfg").write_text("rate=100\n")
    words = '["sysbench", "oltp_read_only", "--config-file=a.cfg"]'
    load = f'[workload]\nkind = "command"\nresults = "sysbench"\ncommand = {words}\nfiles = "a.cfg"\n'
    file.write_text(GOOD.replace('[workload]\nmix = "olap"\n', load))

    assert main(["check", "--no-host", str(file)]) == 2

    assert 'workload.files[0]: "a.cfg": a rate of sysbench' in capsys.readouterr().err


def test_json_has_the_problems(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(GOOD.replace('"olap"', '"oltpp"'))

    assert main(["check", "--json", str(file)]) == 2

    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is False
    assert answer["problems"] == [
        {
            "path": "workload.mix",
            "message": 'invalid value for "mix": "oltpp"',
            "line": 7,
            "hint": 'Perhaps you meant "oltp". '
            "Available values: oltp, olap, tpcc-like, tpcb-like, simple-update, select-only.",
        }
    ]


def test_json_of_a_good_file_has_the_facts(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--json", str(file)]) == 0

    assert json.loads(capsys.readouterr().out)["ok"] is True


def test_a_budget_that_is_too_short_is_an_error_of_its_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(GOOD + '[design]\nbudget = "10s"\n')

    assert main(["check", str(file)]) == 2
    assert "e.toml:13: design.budget: a budget of 10 s is too short for 2 blocks" in capsys.readouterr().err


def test_without_its_programs_a_file_is_right_and_this_machine_not_ready(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(GOOD.replace('"16"', '"/no/where"'))

    assert main(["check", str(file)]) == 1
    out = capsys.readouterr().out
    assert out.startswith(f'not ready: {file}: no PostgreSQL programs in "/no/where"')
    assert 'note: no PostgreSQL programs in "/no/where"' in out
    assert main(["check", str(file), "--no-host"]) == 0
    assert capsys.readouterr().out.startswith(f"ok: {file} is right, but cannot run on this machine\n")
    assert main(["check", str(file), "--no-host", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["ready"]) == (True, False)


def test_variables_that_nothing_sets_or_no_script_uses_are_noted(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(
        'format = 1\nexperiment = { name = "ask" }\ndataset = { kind = "sql", setup = "setup.sql" }\n'
        'workload = { scenario = [{ name = "one", file = "one.sql" }] }\n'
        "target = { workload = { variables = { spare = 4 } } }\n"
        'arms = { a = { workload = { scripts = { one = "own.sql" } } }, b = { workload = { variables.size = 3 } } }\n'
    )
    (tmp_path / "setup.sql").write_text("SELECT 1;\n")
    (tmp_path / "one.sql").write_text("\\set k random(1, :size)\nSELECT :k, :custmer;\n")
    (tmp_path / "own.sql").write_text("\\set k random(1, :size)\nSELECT :k, :custmer, :spare;\n")

    assert main(["check", str(file), "--no-host", "--json"]) == 0

    notes = json.loads(capsys.readouterr().out)["notes"]
    unset = 'scenario "one" uses :{}, which nothing sets{}: pgbench sends it as it stands there'
    assert [note for note in notes if "uses" in note] == [
        'no script of arm "b" uses its variable "spare"',
        unset.format("custmer", ""),
        unset.format("size", " in a"),
    ]


def test_a_variable_whose_value_cannot_count_is_refused(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(
        'format = 1\nexperiment = { name = "ask" }\n'
        'workload = { scenario = [{ name = "one", file = "one.sql" }] }\n'
        "arms = { a = {}, b = { workload = { variables = { size = 3 } } } }\n"
    )
    (tmp_path / "one.sql").write_text("\\set size 10\nSELECT :size;\n")

    assert main(["check", str(file), "--no-host"]) == 2

    assert 'scenario "one" sets its variable "size" itself, and this value does not count' in capsys.readouterr().err


WANTS_EXTENSION = """\
format = 1
experiment = { name = "ask" }
dataset = { kind = "sql", setup = "setup.sql" }
workload = { scenario = [{ name = "one", file = "one.sql" }] }
arms = { a = {}, b = { extensions = { create = ["pg_trgm"] } } }
"""


def test_extensions_that_the_server_here_lacks_are_told_before_data_are_loaded(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(WANTS_EXTENSION)
    (tmp_path / "setup.sql").write_text("CREATE EXTENSION hypopg;\n")
    (tmp_path / "one.sql").write_text("SELECT 1;\n")
    folder = tmp_path / "share/extension"
    folder.mkdir(parents=True)
    (folder / "plpgsql.control").touch()
    programs = Programs(directory=tmp_path / "bin", version="15.18", major=15, origin="PATH")
    monkeypatch.setattr("pgtrial.cli.checked.find_programs", lambda *_, **_options: programs)

    assert main(["check", str(file)]) == 1

    out = capsys.readouterr().out
    said = 'PostgreSQL 15.18 has no extension "hypopg", which setup.sql creates, "pg_trgm", which '
    assert out.startswith(f"not ready: {file}: {said}")
    assert "mostly postgresql-15-hypopg, postgresql-15-pg-trgm" in out
    (folder / "hypopg.control").touch()
    (folder / "pg_trgm.control").touch()
    assert main(["check", str(file)]) == 0


def test_arms_that_do_not_differ_and_few_blocks_are_noted(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(GOOD.replace("2GB", "1GB") + "[design]\nblocks = 3\n")

    assert main(["check", str(file)]) == 0
    out = capsys.readouterr().out
    assert 'note: arms "a" and "b" have the same settings' in out
    assert "note: 3 blocks cannot decide the claim" in out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        (b"", "is empty"),
        (b"\x7fELF\x02\xff\xfe", "not a text file"),
        (b"x" * 10_000_000, "too large"),
        (b"a = \n", "has 1 error"),
    ],
    ids=["missing", "empty", "binary", "10 MB", "syntax"],
)
def test_what_is_no_experiment_file_is_one_clear_error(
    content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "e.toml"
    if content is not None:
        path.write_bytes(content)

    assert main(["check", str(path)]) == 2

    text = capsys.readouterr().err
    assert message in text
    assert text.startswith("error: ")
    assert len(text.splitlines()) <= 3


def test_a_directory_is_one_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(tmp_path)]) == 2
    assert "is a directory, not an experiment file" in capsys.readouterr().err


def test_the_host_is_looked_at_after_the_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(file)]) == 0

    about_file, _, about_host = capsys.readouterr().out.partition("\n\n")
    assert about_file.startswith("ok: e.toml\n")
    assert about_host.startswith("this host: ")


def test_the_host_alone_needs_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 0
    assert capsys.readouterr().out.startswith("this host: ")


def test_file_and_host_can_be_checked_one_without_the_other(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--no-host", str(file)]) == 0
    assert "this host" not in capsys.readouterr().out

    assert main(["check", "--host", "local"]) == 0
    assert capsys.readouterr().out.startswith("this host: ")


def test_nothing_to_check_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--no-host"]) == 2
    assert capsys.readouterr().err.startswith("error: nothing to check")

    assert main(["check", "--no-host", "--host", "local", "e.toml"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_a_wrong_file_is_told_before_the_host_is_looked_at(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(GOOD.replace('"olap"', '"oltpp"'))

    assert main(["check", str(file)]) == 2
    assert capsys.readouterr().out == ""


def test_json_has_the_host(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--json", str(file)]) == 0
    both = json.loads(capsys.readouterr().out)
    assert both["file"] == "e.toml"
    assert (both["host"]["name"], both["host"]["reached"], both["host"]["error"]) == ("local", True, None)
    for remark in both["host"]["remarks"]:
        assert set(remark) == {"code", "severity", "text", "why", "remedy", "command"}

    assert main(["check", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"ok", "host"}

    assert main(["check", "--json", "--no-host", str(file)]) == 0
    assert "host" not in json.loads(capsys.readouterr().out)


def test_settings_of_a_server_elsewhere_are_not_checked_against_this_machines_version() -> None:
    elsewhere = GOOD.replace('postgres = "16"', 'host = "ssh://db"').replace('"1GB"', '"1GB"\nio_method = "sync"')
    named = elsewhere.replace('host = "ssh://db"', 'host = "ssh://db"\npostgres = "18"')
    existing = GOOD.replace('postgres = "16"', 'kind = "server"').replace('"1GB"', '"1GB"\nio_method = "sync"')
    for text, versions in ((elsewhere, "15 to 18"), (named, "18"), (existing, "15 to 18")):
        (server,) = check_text(text, "e", Path("/")).servers
        assert (server.majors, server.exact) == (versions, None)

    with pytest.raises(SpecError) as caught:
        check_text(named.replace("18", "17"), "e", Path("/"))
    assert [problem.message for problem in caught.value.problems] == [
        'unrecognized setting "io_method" for PostgreSQL 17'
    ]


@pytest.mark.parametrize("workload", ['mix = "olap"', 'scenario = [{ name = "a", file = "a.sql" }]'])
def test_longer_pauses_need_a_script_that_pauses(file: Path, capsys: pytest.CaptureFixture[str], workload: str) -> None:
    Path("a.sql").write_text("SELECT 1;\n")
    text = GOOD.replace('mix = "olap"', workload).replace("b.postgresql]\nshared_buffers", "b.workload]\npauses")
    file.write_text(text.replace('"2GB"', "3"))

    assert main(["check", "--no-host", str(file)]) == 2

    assert "no \\sleep is in the scripts" in capsys.readouterr().err
    if "file" in workload:
        Path("a.sql").write_text("SELECT 1; \\sleep 5 ms\n")
        assert main(["check", "--no-host", str(file)]) == 0


ORM = Path(__file__).parents[2] / "examples" / "orm" / "experiment.toml"


def test_programs_of_arms_are_looked_for_and_what_to_do_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example of two versions of SQLAlchemy, where its environments are not in PATH."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert main(["check", str(ORM)]) == 1

    out = capsys.readouterr().out
    assert out.startswith(f"not ready: {ORM}: the programs sqlalchemy-1.4, sqlalchemy-2.0 are not found. Correct")
    assert "install it" in out
    assert "it is looked for in PATH" in out
    assert main(["check", "--no-host", str(ORM)]) == 0


def test_the_interpreter_of_a_script_of_the_file_is_looked_for(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load = '[workload]\nkind = "command"\ncommand = ["./load.py"]\nfiles = "load.py"\nclients = 2\n'
    file.write_text(GOOD.replace('[workload]\nmix = "olap"\n', load))
    Path("load.py").write_text("#!/nowhere/python\n")

    assert main(["check", "--no-host", "--json", str(file)]) == 0

    answer = json.loads(capsys.readouterr().out)
    assert not answer["ready"]
    assert any("its interpreter /nowhere/python is not found" in note for note in answer["notes"])


@needs_pgbouncer
@pytest.mark.parametrize(("protocol", "is_ready"), [("prepared", False), ("extended", True)])
def test_a_pooler_that_is_too_old_for_the_protocol_is_told(
    file: Path, monkeypatch: pytest.MonkeyPatch, protocol: str, is_ready: bool
) -> None:
    """And not when the data have been made."""
    monkeypatch.setattr("pgtrial.postgres.pooler._PREPARED_SINCE", (99, 0))
    pooler = f'[arms.b.pgbouncer]\npool_mode = "transaction"\n[arms.b.workload]\nprotocol = "{protocol}"\n'
    load = '[workload]\nmix = "oltp"\nclients = 8\n'
    text = GOOD.replace('[target]\npostgres = "16"\n', "").replace('[workload]\nmix = "olap"\n', load) + pooler

    missing = check_text(text, "e.toml", Path.cwd()).missing

    assert ('pool_mode = "transaction" with protocol = "prepared"' in missing) != is_ready
    assert ('Choose protocol = "simple"' in missing) != is_ready


def test_programs_that_a_hook_may_bring_are_not_looked_for(file: Path) -> None:
    """It is called before run looks for them."""
    load = '[workload]\nkind = "command"\ncommand = ["not-there-yet"]\nclients = 2\n'
    own = GOOD.replace('[workload]\nmix = "olap"\n', load)
    file.write_text(own)
    assert main(["check", str(file)]) == 1
    file.write_text(own + '[hooks]\nbefore_dataset = ["install-it"]\n')

    assert main(["check", str(file)]) == 0


def test_an_experiment_whose_programs_are_in_the_path_is_ready(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with tempfile.TemporaryDirectory(prefix="pgtrial-test-") as name:  # the account of the load can enter it
        place = Path(name)
        place.chmod(0o755)
        for program in ("sqlalchemy-1.4", "sqlalchemy-2.0"):
            (place / program).write_text("#!/bin/sh\ntouch was-started\n")
            (place / program).chmod(0o755)
        monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
        monkeypatch.chdir(place)

        assert main(["check", str(ORM)]) == 0

        assert sorted(path.name for path in place.iterdir()) == ["sqlalchemy-1.4", "sqlalchemy-2.0"]  # none was started
    assert capsys.readouterr().out.startswith(f"ok: {ORM}\n")
