"""Every command, while a neighbour swaps each name where it reads and writes for a link: nothing elsewhere changes."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

from pgtrial.cli.main import COMMANDS, group, main
from pgtrial.engine import copying
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.safe_files import new_path
from support import wait_until, write_result_folder
from support.attack.races import below, neighbour

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the neighbour is another user, whom only root can be")
NOBODY = 65534
REPEATS = 3
TEXT = """
format = 1
experiment = { name = "calm" }
hypothesis = { claim = "b is better", arm = "b", expect = "better" }
dataset = { scale = 1 }
workload = { mix = "select-only", clients = 1, duration = "3s" }
[arms.a.postgresql]
work_mem = "4MB"
[arms.b.postgresql]
work_mem = "8MB"
"""
SERVER = """
format = 1
experiment = { name = "theirs" }
hypothesis = { claim = "b is better", arm = "b", expect = "better" }
target = { kind = "server", database = "erp" }
dataset = { kind = "existing" }
workload = { clients = 1, duration = "3s", scenario = [{ name = "s", file = "s.sql" }] }
[arms.a.postgresql]
work_mem = "4MB"
[arms.b.postgresql]
work_mem = "8MB"
"""
LOG = "2026-01-20 10:00:00.000 UTC,,app,,,s1,,,,,,LOG,,statement: SELECT 1,,,,,,,,,\n"
_GATE = "--junit {s}/j.xml --summary-markdown {s}/m.md --history {s}/h.jsonl --github-summary"
# {s} is the neighbour's directory, {t} the result folder in it, {m} a complete one that is our own, {w} its directory.
CASES: dict[str, tuple[str, ...]] = {
    "demo": ("--results {s}/results --work-directory {w} -q",),
    "init": ("{s}/new.toml", "{s}/e.toml --force"),
    "check": ("{s}/e.toml --no-host", "{s}/e.toml --no-host --allow-files {s}"),
    "plan": ("{s}/e.toml", "{w}/e.toml --fleet {s}/hosts.toml"),
    "register": ("{s}/e.toml",),
    "copy": ("{s}/server.toml -o {s}/copy.toml", "{s}/server.toml --dump {s}/d.dump --output {s}/copy.toml"),
    "calibrate": ("{s}/e.toml --results {s} --work-directory {w} -q",),
    "limits": ("{s}/e.toml --results {s} --work-directory {w} -q",),
    "run": (
        "{w}/e.toml -q --results {s} --work-directory {w} " + _GATE,
        "{w}/e.toml -q --results {s} --fleet {s}/e.toml",  # no list of hosts, so that nothing is led
    ),
    "resume": ("{t} -q", "{m} -q --work-directory {w} " + _GATE, "{m} -q --fleet {s}/e.toml"),
    "status": ("{t}",),
    "restore": ("",),
    "report": ("{t}", "{t} -o {s}/page.html", "{m} --output {s}/page.html " + _GATE, "{t} --output {w}/page.html"),
    "narrate": ("{t} -o {s}/n.md", "{m} --output {s}/n.md", "{m} --dossier {s}/d.md", "{m} --answer {s}/answer.json"),
    "apply": ("{t}",),
    "suggest": ("{t} -o {s}/next", "{m} --output {s}"),
    "predict": ("{t} --change flush=0.5",),
    "watch": (
        *(f"host=/nonexistent {option} {{s}}/watched" for option in ("-o", "--output")),
        "host=/nonexistent -o {s}/watched --unit",
        "host=/nonexistent -o {s}/watched --textfile {s}",
    ),
    "compare-times": (
        "{s} now-2h/now-1h now-1h -o {s}/times.html",
        "{s} now-2h/now-1h now-1h --output {s}/times.html --promised {t}",
    ),
    "statements": ("{s} --window now-1h", "{s} UPDATE"),
    "question": tuple(
        f"{{s}} now-2h/now-1h now-1h --server host=/nonexistent {o} {{s}}/ask" for o in ("-o", "--output")
    ),
    "alarms": ("{s}",),
    "compare": ("{t} {m}", "{t} {m} -o {s}/c.html", "{m} {o} --output {s}/c.html"),
    "serve": ("{s} --port 0", "{s} --port 0 --metrics-token {s}/monitor.token"),
    "export": (
        *(f"{{m}} --format {form} -o {{s}}/x-{form}" for form in ("xlsx", "csv", "parquet", "markdown")),
        *(f"{{t}} --format {form} --output {{s}}/x-{form}" for form in ("jsonl", "prometheus", "parquet")),
        "{m} --bundle -o {s}/b.zip",
        "{t} --bundle --redact all -o {s}/b.zip",
    ),
    "workload": (
        *(f"host=/nonexistent {option} {{s}}/load" for option in ("-o", "--output")),
        "host=/nonexistent --check {s}/load --allow-writes",
    ),
    "replay": ("{s}/app.csv --dsn host=/nonexistent",),
    "unpack": ("{s}/gift.zip --results {s}", "{w}/gift.zip --results {s}/new"),
    "schema": ("",),
    "completion": ("bash",),
}
# Only compared with others, by one function for all commands; all other paths of the parser stand in a case.
_COMPARED = frozenset({"--allow-files"})


def commands() -> dict[str, click.Command]:
    context = click.Context(group)
    return {name: found for name, _ in COMMANDS if (found := group.get_command(context, name)) is not None}


def test_every_command_has_a_case() -> None:
    assert set(CASES) == set(commands())


def test_every_path_that_a_command_takes_is_in_a_case() -> None:
    for name, command in commands().items():
        words = " ".join(CASES[name]).split()
        for parameter in command.params:
            if isinstance(parameter, click.Option) and isinstance(parameter.type, click.Path):
                assert set(parameter.opts) & {*words, *_COMPARED}, (name, parameter.opts)


def test_every_format_is_in_a_case() -> None:
    (form,) = (each for each in commands()["export"].params if each.name == "form")
    assert isinstance(form.type, click.Choice)
    for each in form.type.choices:
        assert any(f"--format {each} " in case for case in CASES["export"]), each


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete result folder, with a report, and a bundle of it."""
    place = tmp_path_factory.mktemp("model")
    folder = write_result_folder(place / "complete", runs=2)
    assert main(["report", str(folder)]) == 0
    assert main(["export", str(folder), "--bundle", "-o", str(place / "gift.zip")]) == 0
    return place


@pytest.fixture
def place(storage: Path, model: Path) -> Iterator[Path]:
    """``shared`` is the neighbour's, ``mine`` ours, ``elsewhere`` has files of ours with names that he may lead to."""
    place = storage / f"pgtrial-races-{os.getpid()}"
    place.mkdir(mode=0o755)
    for name in ("shared/theirs", "mine/complete", "mine/other", "elsewhere"):
        shutil.copytree(model / "complete", place / name)
    for directory in (place / "shared", place / "mine"):
        shutil.copy(model / "gift.zip", directory / "gift.zip")
        (directory / "e.toml").write_text(TEXT)
        (directory / "server.toml").write_text(SERVER)
        (directory / "s.sql").write_text("SELECT 1;\n")
        (directory / "answer.json").write_text("{}")
        (directory / "app.csv").write_text(LOG)
        (directory / "monitor.token").write_text(40 * "0")
        (directory / "monitor.token").chmod(0o640)
        (directory / "hosts.toml").write_text('[[host]]\nname = "here"\nlocal = true\n')
    (place / "elsewhere" / "authorized_keys").write_text("precious\n")
    for path in (place / "elsewhere", *(place / "elsewhere").rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", place / "shared"], check=True)
    yield place
    subprocess.run(["rm", "-rf", place], check=True)


def dump(_experiment: Experiment, to: Path, _caller: Mapping[str, str], _output: Path) -> copying.Dumped:
    """As that of the command, without a server."""
    with new_path(to) as part:
        part.write_text("data")
    return copying.Dumped(size=4, major=16, settings=())


def serve(words: list[str]) -> None:
    """Ask once for everything that there is."""
    command = [sys.executable, "-m", "pgtrial", "serve", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as served:
        assert served.stdout is not None
        address = urllib.parse.urlsplit(served.stdout.readline().strip())
        if address.netloc:
            url = address._replace(path="/api/experiments").geturl()
            with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=60) as answer:
                answer.read()
        served.send_signal(signal.SIGINT)


def contents(place: Path, *, but: str) -> dict[str, bytes | None]:
    found = {str(path.relative_to(place)): path.read_bytes() if path.is_file() else None for path in place.rglob("*")}
    return {name: content for name, content in found.items() if name != but}


@pytest.mark.pg
@pytest.mark.parametrize(
    ("name", "case"), [(name, case) for name, cases in CASES.items() for case in cases], ids=lambda value: value or "-"
)
def test_nothing_elsewhere_changes(
    name: str, case: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shared, elsewhere = place / "shared", place / "elsewhere"
    if name == "restore":  # all that it writes is in the state directory
        monkeypatch.setenv("PGTRIAL_STATE_DIRECTORY", str(shared / "state"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(shared / "step.md"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared / "cache"))
    monkeypatch.chdir(place / "mine")
    monkeypatch.setattr(copying, "copy_on_server", lambda *_: copying.Copied(size=1, left_out=()))
    monkeypatch.setattr(copying, "dump", dump)
    mine = place / "mine"
    words = case.format(s=shared, t=shared / "theirs", m=mine / "complete", o=mine / "other", w=mine).split()
    victim = elsewhere / "authorized_keys"
    before = contents(elsewhere, but=f"{victim.name}-swaps")

    with neighbour(lambda: below(shared), victim, user=(NOBODY, NOBODY)) as told:
        wait_until(lambda: int(told.read_text() or "0") > 0)
        for _ in range(REPEATS):
            serve(words) if name == "serve" else main([name, *words])
    capsys.readouterr()

    assert contents(elsewhere, but=told.name) == before
