"""The command as a process of its own: what it prints, how it ends."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from support import write_result_folder

PATIENCE = 60.0  # s


@contextmanager
def serving(*arguments: str | Path, directory: Path) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-m", "pgtrial", "serve", *map(str, arguments)],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUTF8": "1"},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def address_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_address_and_ends_when_it_is_asked_to(tmp_path: Path, number: signal.Signals) -> None:
    write_result_folder(tmp_path / "results" / "first")
    with serving("--port", "0", directory=tmp_path) as process:
        address = address_of(process)
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", address)
        with urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(address, timeout=PATIENCE) as page:
            assert page.status == 200
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE)

    assert (process.returncode, said) == (0, "Ctrl-C ends it.\nended\n")


def test_it_listens_on_loopback_only(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0", directory=tmp_path) as process:
        port = int(re.findall(r":(\d+)/", address_of(process))[0])
        listening = [
            line.split()[1]
            for name in ("tcp", "tcp6")
            for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
            if line.split()[3] == "0A" and int(line.split()[1].rpartition(":")[2], 16) == port
        ]

    assert listening == [f"0100007F:{port:04X}"]


def test_a_port_in_use_is_one_clear_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        assert main(["serve", str(tmp_path), "--port", str(port)]) == 1

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"error: port {port} on 127.0.0.1 is in use\n"
        "hint: Another pgtrial may serve there. Choose another port with --port; --port 0 picks a free one.\n"
    )


def test_a_directory_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.startswith(
        f'error: cannot open "{tmp_path}/none": No such file or directory\nhint: '
    )

    (tmp_path / "file").touch()
    assert main(["serve", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err.startswith(f'error: "{tmp_path}/file" is not a directory\n')


def test_a_token_that_everybody_may_read_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = tmp_path / "token"
    token.write_text("0" * 40)
    token.chmod(0o644)
    assert main(["serve", str(tmp_path), "--metrics-token", str(token)]) == 2
    assert capsys.readouterr().err == (
        f'error: everybody may read or write the token in "{token}"\nhint: Take that right away: chmod o= {token}\n'
    )


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_a_port_that_is_none_is_a_wrong_usage(tmp_path: Path, port: str) -> None:
    assert main(["serve", str(tmp_path), "--port", port]) == 2


def test_looking_loads_no_library_of_the_measurement() -> None:
    """A page that is open beside a measurement is to be small."""
    program = (
        "import sys, pgtrial.web.server; print(*{'duckdb', 'numpy', 'scipy', 'psycopg', 'rich'} & set(sys.modules))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE
    )

    assert found.stdout.strip() == ""
