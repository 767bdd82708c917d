"""An experiment file that names files of whoever runs it: they are not read, unless he says so."""

import json
import sqlite3
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from pgtrial.design.plan import make_plan
from pgtrial.engine.folder import create_folder
from pgtrial.errors import SpecError
from pgtrial.experiment_file.code_uses import find_in_sql
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.safe_files import open_file
from pgtrial.store import layout
from pgtrial.workloads import data_files, psql_script, scenarios
from support.experiments import load_experiment

EXPERIMENT = """
format = 1
experiment = {{ name = "gift" }}
hypothesis = {{ claim = "b is better", arm = "b", expect = "better" }}
dataset = {{ kind = "sql", {dataset} }}
design = {{ blocks = 2 }}
[workload]
clients = 1
duration = "1s"
[[workload.scenario]]
name = "s"
file = "{script}"
[arms.a.postgresql]
work_mem = "4MB"
[arms.b.postgresql]
work_mem = "8MB"
"""
NAMES = ("{outside}/secret.sql", "../private/secret.sql", "link.sql", "linked/secret.sql", "~/secret.sql")
DATASETS = ('setup = "{}"', 'load = "{}"', 'load = ["own.sql", "{}"]')


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a gift, beside one with a secret to which it has links."""
    outside, gift = tmp_path / "private", tmp_path / "gift"
    outside.mkdir()
    gift.mkdir()
    (outside / "secret.sql").write_text("SELECT 'geheim';\n\\shell geheim\n")
    (gift / "own.sql").write_text("SELECT 1;\n")
    (gift / "link.sql").symlink_to(outside / "secret.sql")
    (gift / "linked").symlink_to(outside)
    monkeypatch.setenv("HOME", str(outside))
    monkeypatch.chdir(tmp_path)
    return gift


def write(place: Path, *, script: str = "own.sql", dataset: str = 'setup = "own.sql"') -> str:
    (place / "e.toml").write_text(EXPERIMENT.format(script=script, dataset=dataset))
    return str(place / "e.toml")


@pytest.mark.parametrize("command", [("check", "--no-host"), ("plan",), ("register",), ("run", "-q"), ("calibrate",)])
@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("~")])
def test_a_script_from_elsewhere_is_neither_read_nor_run(
    place: Path,
    command: tuple[str, ...],
    name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(path: Path, *, follow: bool = False):
        assert path.name == "own.sql", path
        return open_file(path, follow=follow)

    for module in (scenarios, data_files, psql_script):
        monkeypatch.setattr(module, "open_file", refuse)
    file = write(place, script=name.format(outside=place.parent / "private"))

    assert main([*command, file]) == 2

    told = capsys.readouterr()
    assert "workload.scenario[0].file" in told.err
    assert "is not beneath the directory of the experiment file" in told.err
    assert "--allow-files" in told.err
    assert "geheim" not in told.out + told.err
    assert not (place.parent / "results").exists()


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("name", NAMES)
def test_data_from_elsewhere_are_not_read(
    place: Path, dataset: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(place, dataset=dataset.format(name.format(outside=place.parent / "private")))

    assert main(["plan", file]) == 2

    told = capsys.readouterr()
    assert "is not beneath the directory of the experiment file" in told.err
    assert "geheim" not in told.out + told.err


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("~")])
def test_what_the_user_allows_is_read(place: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    outside = place.parent / "private"
    file = write(place, script=name.format(outside=outside))

    assert main(["check", "--no-host", file, "--allow-files", "elsewhere", "--allow-files", str(outside)]) == 0

    assert "\\shell geheim" in capsys.readouterr().out  # it is listed, as code is


def test_the_directory_of_the_file_may_be_reached_by_a_link(place: Path) -> None:
    (place.parent / "way").symlink_to(place)

    write(place)

    assert main(["check", "--no-host", str(place.parent / "way" / "e.toml")]) == 0


def test_the_problem_is_one_of_all_and_in_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(place, script="../private/secret.sql", dataset='setup = "link.sql"')

    assert main(["check", "--no-host", "--json", file]) == 2

    problems = json.loads(capsys.readouterr().out)["problems"]
    assert [problem["path"] for problem in problems] == ["dataset.setup", "workload.scenario[0].file"]


@pytest.mark.parametrize("line", ["\\i link.sql", "\\ir linked/secret.sql", "\\copy t from 'link.sql'"])
def test_a_file_for_psql_reads_through_no_link_that_leads_out(place: Path, line: str) -> None:
    (place / "own.sql").write_text(f"{line}\n")
    tables = {"format": 1, "experiment": {"name": "x"}, "workload": {"mix": "olap"}, "arms": {"a": {}, "b": {}}}
    experiment = Experiment.model_validate(tables | {"dataset": {"kind": "sql", "load": "own.sql"}})

    with pytest.raises(SpecError, match="is not in the directory of the file that is loaded"):
        data_files.data_files(experiment, place)


def test_an_archive_in_a_directory_has_no_link_that_leads_out(place: Path) -> None:
    (place / "dump").mkdir()
    (place / "dump" / "toc.dat").symlink_to(place.parent / "private" / "secret.sql")
    tables = {"format": 1, "experiment": {"name": "x"}, "workload": {"mix": "olap"}, "arms": {"a": {}, "b": {}}}
    experiment = Experiment.model_validate(tables | {"dataset": {"kind": "sql", "load": "dump"}})

    with pytest.raises(SpecError, match="is a link that leads out of it"):
        data_files.data_files(experiment, place)


@pytest.mark.parametrize(
    ("sql", "is_listed"),
    [
        ("COPY t FROM '/home/me/.ssh/id_rsa'", True),
        ("copy public.\"my t\" (a, b)\nfrom E'/x'", True),
        ("COPY (SELECT 'key') TO '/home/me/.ssh/authorized_keys'", True),
        ("copy t to $$/x$$", True),
        ("COPY/**/t/* x */FROM '/x'", True),
        ("COPY t -- x\n FROM '/x'", True),
        ("SELECT pg_read_file('/x'), pg_read_binary_file('/x')", True),
        ("SELECT lo_import('/x')", True),
        ("COPY t FROM stdin;", False),
        ("COPY t TO STDOUT;", False),
        ("SELECT substring(a from 'x'), extract(epoch from '1 day'::interval)", False),
        ("ALTER TABLE copy RENAME TO x; SET search_path TO 'x'", False),
    ],
)
def test_sql_that_reads_or_writes_a_file_is_listed(sql: str, is_listed: bool) -> None:
    """Without root the server has the rights of the user, so plain SQL gets at his files."""
    assert any(use.what.startswith("a file of the server's machine") for use in find_in_sql("s", sql)) == is_listed


def folder_of(place: Path, **named: str) -> Path:
    """A result folder of the gift, of which no run has been done, as somebody may have sent it."""
    loaded = load_experiment(Path(write(place, **named)))
    return create_folder(loaded, make_plan(loaded.experiment), place.parent / "results")


def test_data_that_a_received_folder_names_are_read_only_if_allowed(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(place, dataset='load = "own.sql"')
    (place / "own.sql").write_text("\\! geheim\n")

    assert main(["resume", "-q", str(folder)]) == 2
    told = capsys.readouterr().err
    assert "is not beneath the files of the result folder" in told
    assert "geheim" not in told

    for given in (("--allow-files", str(place)), ()):  # what was allowed once is on record
        assert main(["resume", "-q", *given, str(folder)]) == 2
        assert "--allow-code" in capsys.readouterr().err  # it is read, and asks for that now


def test_a_received_folder_cannot_name_a_file_of_the_home_directory(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(place, dataset='load = "own.sql"')
    with sqlite3.connect(folder / layout.STATE) as db:
        plan = json.loads(db.execute("SELECT value FROM meta WHERE key = 'plan'").fetchone()[0])
        plan["experiment"]["dataset"]["load"] = ["~/secret.sql"]
        db.execute("UPDATE meta SET value = ? WHERE key = 'plan'", [json.dumps(plan)])

    assert main(["resume", "-q", str(folder)]) == 2
    told = capsys.readouterr().err
    assert "is not beneath the files of the result folder" in told
    assert "geheim" not in told
