import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from pgtrial import __version__
from pgtrial.cli import main as cli
from pgtrial.errors import RestoreError, SpecError, SpecProblem, TargetError

HEAVY = ("pydantic", "psycopg", "duckdb", "scipy", "numpy", "jinja2", "rich", "vl_convert", "xlsxwriter")


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    @click.command()
    def command() -> None:
        raise error

    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: command)


def test_help_lists_every_command_and_imports_nothing_heavy() -> None:
    code = (
        "import json, sys\n"
        "from pgtrial.cli.main import main\n"
        "status = main(['--help'])\n"
        "json.dump([status, sorted({name.partition('.')[0] for name in sys.modules})], sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    status, modules = json.loads(done.stderr)

    assert status == 0
    assert not set(HEAVY) & set(modules)
    assert all(f"  {name} " in done.stdout and help_ in done.stdout for name, help_ in cli.COMMANDS)


def test_every_module_with_a_command_is_in_the_table() -> None:
    folder = Path(cli.__file__).parent
    with_command = {path.stem for path in folder.glob("*.py") if "\ndef command(" in path.read_text()}

    assert with_command == {name.replace("-", "_") for name, _ in cli.COMMANDS}


@pytest.mark.parametrize("name", [name for name, _ in cli.COMMANDS])
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    assert f"Usage: pgtrial {name}" in capsys.readouterr().out


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"pgtrial {__version__}\n"


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    assert "Commands:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["chekc"], 'error: no such command "chekc"\n', 'hint: Perhaps you meant "check". Try "pgtrial --help".'),
        (["xyz"], 'error: no such command "xyz"\n', 'hint: Try "pgtrial --help".'),
        (["plan"], 'error: missing argument "FILE"\n', 'Try "pgtrial plan --help".'),
        (
            ["plan", "--jsn", "x"],
            'error: no such option "--jsn"\n',
            'hint: Perhaps you meant "--json". Try "pgtrial plan --help".',
        ),
        (["plan", "--xyz", "x"], 'error: no such option "--xyz"\n', 'hint: Try "pgtrial plan --help".'),
        (["demo", "--blocks", "it's"], 'error: invalid value for "--blocks": "it\'s" is not', "pgtrial demo --help"),
        (["report", ".", "-o", "/tmp"], 'error: invalid value for "-o" / "--output": File "/tmp" is a directory\n', ""),
        (["run"], "error: no experiment given", "pgtrial run -s shared_buffers"),
        (["run", "x.toml", "-s", "a=1,2", "--mix", "olap"], "error: -s, --mix cannot be used", "Change"),
        (["run", "x.toml", "--no-placebo"], "error: --no-placebo cannot be used", "Change"),
        (["run", "-s", "a"], 'error: cannot parse the setting "a"', "-s NAME=A,B"),
    ],
)
def test_wrong_usage_exits_with_2(
    arguments: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert hint in captured.err


def test_all_problems_of_a_quick_experiment_are_told_without_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "-s", "work_mem=1MB,2mb", "--mix", "olpa", "--duration", "5x"]) == 2

    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "error: the command line has 3 errors"
    assert [line.split(": ")[0].strip() for line in lines[1:] if "hint" not in line and line[:3] != "   "] == [
        "workload.mix",
        "workload.duration",
        "factors.work_mem.levels[1]",
    ]


def test_a_wrong_option_of_the_demo_is_told_without_the_file_inside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert cli.main(["demo", "--duration", "x", "--warmup", "1s"]) == 2
    assert capsys.readouterr().err == (
        "error: the command line has 1 error\n"
        '  workload.duration: invalid value for "duration": expected a time such as 30s or 10min (units: us, ms, s, '
        'min, h, d), got "x"\n'
    )
    assert cli.main(["demo", "--warmup", "x"]) == 2
    assert '  workload.warmup: invalid value for "warmup": ' in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_error_is_shown_in_three_parts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fail_with(monkeypatch, TargetError("the server ended", detail="Line one.\nLine two.", hint="Try again."))

    assert cli.main(["check"]) == 1
    assert capsys.readouterr().err == "error: the server ended\ndetail: Line one.\n  Line two.\nhint: Try again.\n"


def test_every_problem_of_a_file_has_its_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = (SpecProblem(path="a.b", message="wrong", line=3, hint="Do this."), SpecProblem(path="c", message="bad"))
    fail_with(monkeypatch, SpecError("two errors", problems=problems, source="x.toml"))

    assert cli.main(["check"]) == 2
    assert capsys.readouterr().err == (
        "error: two errors\n  x.toml:3: a.b: wrong\n    hint: Do this.\n  x.toml: c: bad\n"
    )


def test_an_unexpected_exception_is_called_a_bug_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, ZeroDivisionError("division by zero"))

    assert cli.main(["check"]) == 1
    text = capsys.readouterr().err
    assert text.startswith("error: this is a bug in pgtrial: ZeroDivisionError: division by zero\nhint: ")
    assert "Traceback" not in text

    assert cli.main(["--debug", "check"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (RestoreError("x"), 6),
        (SystemExit(4), 4),
        (SystemExit("text"), 1),
        (click.exceptions.Exit(3), 3),
        (BrokenPipeError(), 141),
    ],
)
def test_exit_codes(
    error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, error)
    kept = os.dup(1)
    try:
        assert cli.main(["check"]) == status
    finally:
        os.dup2(kept, 1)
        os.close(kept)
    assert "Traceback" not in capfd.readouterr().err


def test_a_closed_pipe_is_quiet() -> None:
    command = [sys.executable, "-m", "pgtrial", "schema"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
        status = process.wait(timeout=60)

    assert errors == b""
    assert status == 141


def test_an_interrupt_ends_with_130_and_no_traceback() -> None:
    code = (
        "import os, signal, sys, threading\n"
        "from pgtrial.cli import main as cli\n"
        "import click, time\n"
        "@click.command()\n"
        "def command():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(30)\n"
        "cli.LazyGroup.get_command = lambda *_: command\n"
        "sys.exit(cli.main(['check']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 128 + signal.SIGINT
    assert done.stderr == "interrupted\n"


def test_interrupt_that_a_library_turns_into_an_import_error_is_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def command() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        except KeyboardInterrupt:
            raise ImportError("Encountered an error while initializing the extension.") from None

    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: command)

    assert cli.main(["check"]) == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
