"""A host that answers wrongly, slowly or without end: one clear error in time, and nothing of it is believed."""

import asyncio
import json
import resource
import sys
import time
from pathlib import Path

import pytest

from pgtrial.errors import ConnectError
from pgtrial.hosts.ssh import agent, host
from pgtrial.hosts.ssh.host import SshHost

HELLO = f'say({{"hello": "{agent.HELLO}"}})'
# What stands in for ssh: Python that has ``say`` and ``asked``, an iterator over what it is asked.
STAND_IN = """#!{python} -IS
import json, sys, time
def say(message):
    print(message if isinstance(message, str) else json.dumps(message), flush=True)
asked = (json.loads(line) for line in sys.stdin if line.startswith("{{") and len(line) > 4)
{text}
"""
NO_HOST = {
    "silent": "time.sleep(600)",
    "gone": "",
    "endless line": "while True: sys.stdout.write('x' * 65536)",
    "endless lines": "while True: say('x')",
    "endless words": "while True: sys.stderr.write('x' * 65536)",
    "binary": "sys.stdout.buffer.write(bytes(range(256)) * 1000)",
}
ANSWERS = {
    "no json": "say('nonsense')",
    "no object": "say('[1]')",
    "deep": "say('[' * 100000)",
    "no result": "say({'id': m['id']})",
    "no tuple": "say({'id': m['id'], 'result': {'x': 1}})",
    "another kind": "say({'id': m['id'], 'result': {'tuple': ['a', 'b']}})",
    "too short": "say({'id': m['id'], 'result': {'tuple': []}})",
    "nothing": "say({'id': m['id'], 'result': None})",
    "half an error": "say({'id': m['id'], 'error': 1})",
    "failure": "say({'id': m['id'], 'failure': 'x' * 1000000})",
    "unasked": "say({'key': [], 'stream': 7})",
    "silent": "pass",
    "another number": "say({'id': -1, 'result': 'x'})",
}
CALLS = ("boot_id", "cpus", "clock", "uname", "libc", "user")


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def use(text: str) -> None:
        program = tmp_path / "ssh"
        program.write_text(STAND_IN.format(python=sys.executable, text=text))
        program.chmod(0o755)
        monkeypatch.setenv("PGTRIAL_SSH", str(program))
        monkeypatch.setattr(host, "_OPEN_LIMIT", 5.0)
        monkeypatch.setattr(host, "ANSWER_LIMIT", 2.0)

    return use


def call(name: str) -> object:
    async def open_and_call() -> object:
        found = await SshHost.open("ssh://db1")
        try:
            return getattr(found.ops, name)()
        finally:
            await found.close(at_once=True)

    return asyncio.run(open_and_call())


@pytest.mark.parametrize("kind", NO_HOST)
def test_what_is_no_host_is_one_error(stand_in, kind: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stand_in(NO_HOST[kind])

    with pytest.raises(ConnectError, match="db1"):
        call("boot_id")

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # kB


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ANSWERS)
def test_wrong_answers_are_one_error(stand_in, kind: str, name: str) -> None:
    stand_in(f"{HELLO}\nfor m in asked: {ANSWERS[kind]}")
    begun = time.monotonic()

    # None is what some of the calls may return.
    with pytest.raises(ConnectError, match="db1"):
        call(name)

    assert time.monotonic() - begun < 60


@pytest.mark.parametrize("started", [{"tuple": ["x", "y"]}, {"tuple": [1]}, "x", None, {"tuple": [1, 2, 3]}])
def test_a_program_that_was_not_started_is_one_error(stand_in, started: object) -> None:
    stand_in(
        f"{HELLO}\nfor m in asked: say({{'id': m['id'], 'result': json.loads({json.dumps(json.dumps(started))})}})"
    )

    async def start() -> None:
        found = await SshHost.open("ssh://db1")
        try:
            await found.start(["true"], role="x")
        finally:
            await found.close(at_once=True)

    with pytest.raises(ConnectError, match="does not understand"):
        asyncio.run(start())


def copy_from(to: Path) -> None:
    async def copy() -> None:
        found = await SshHost.open("ssh://db1")
        try:
            await found.copy_from(Path("/log"), to)
        finally:
            await found.close(at_once=True)

    asyncio.run(copy())


@pytest.mark.parametrize("chunk", ["QUJ", "@@@@", "QUJD" * 400_000])
def test_a_piece_of_a_file_that_is_none_is_one_error(stand_in, chunk: str, tmp_path: Path) -> None:
    stand_in(f"{HELLO}\nfor m in asked: say({{'id': m['id'], 'result': {chunk!r}}})")

    with pytest.raises(ConnectError, match="does not understand"):
        copy_from(tmp_path / "log")
    assert list(tmp_path.glob("*log*")) == []


def test_a_file_without_end_is_given_up(stand_in, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_LARGEST", 1 << 20)
    stand_in(f"{HELLO}\nfor m in asked: say({{'id': m['id'], 'result': 'QUJD' * 100000}})")

    with pytest.raises(OSError, match="more than"):
        copy_from(tmp_path / "log")
    assert list(tmp_path.glob("*log*")) == []
