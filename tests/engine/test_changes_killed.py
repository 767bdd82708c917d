"""An experiment that changes a host is killed before and after each of its steps; so is the first restore after it.

Run as a program with a directory, this prints what was found after each of these kills.
"""

import asyncio
import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgtrial.hosts.operations import Operations
from pgtrial.store.journal import Journal
from pgtrial.store.journal_file import VARIABLE


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What was found after a kill before and after each write to the journal and to the host."""
    directory = tmp_path_factory.mktemp("killed")
    done = subprocess.run(
        [sys.executable, __file__, str(directory)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    result: list[dict[str, Any]] = json.loads(done.stdout)
    return result


def test_whenever_it_is_killed_everything_comes_back(killed) -> None:
    # 3 changes, each with begin, 2 writes, confirm, and again 2 writes and end; before and after each of them.
    assert len(killed) == 3 * 7 * 2
    assert [each for each in killed if each["after"] != "000000"] == []
    assert [each for each in killed if each["open"]] == []
    assert {outcome for each in killed for outcome in each["outcomes"]} == {"restored", "already as before"}


def test_whenever_it_is_killed_what_is_changed_is_in_the_journal(killed) -> None:
    before = {each["before"] for each in killed}
    assert {"000000", "100000", "110000", "111111", "111101", "010000"} <= before  # also in the middle of a change
    for each in killed:
        changed = {name for name, value in zip("aabbcc", each["before"], strict=True) if value == "1"}
        assert changed <= set(each["listed"])


def test_some_restores_were_killed_in_the_middle_of_a_change(killed) -> None:
    assert {"111101", "110100", "010000"} <= {each["between"] for each in killed}


def kill_at_every_step(directory: Path, make_place: Callable[[Path], Any]) -> list[dict[str, Any]]:
    """Fork processes that change and restore, and are killed at one more step each; undo in further ones."""
    results: list[dict[str, Any]] = []
    while found := kill_at(make_place(directory / str(len(results))), len(results) + 1):
        results.append(found)
    return results


def kill_at(place: Any, step: int) -> dict[str, Any]:
    """What was found after a kill at this step; empty if there are fewer steps."""
    os.environ[VARIABLE] = str(place.directory / "state")
    status = run_forked(lambda: change(place), kill_at=step)
    if status == 0:
        return {}
    assert os.WTERMSIG(status) == signal.SIGKILL
    before = place.values()
    with Journal.open(write=False) as journal:
        listed = [record.entry.change.name for record in journal.open_entries()]
    run_forked(lambda: undo(place), kill_at=step % 13 + 1)
    between = place.values()
    assert run_forked(lambda: undo(place)) == 0
    with Journal.open(write=False) as journal:
        left, outcomes = len(journal.open_entries()), [record.outcome for record in journal.history(10)]
    return {
        "before": before,
        "listed": listed,
        "between": between,
        "after": place.values(),
        "open": left,
        "outcomes": outcomes,
    }


def run_forked(work: Callable[[], None], *, kill_at: int = 0) -> int:
    """Wait status of a process that does the work, and kills itself at a step."""
    pid = os.fork()
    if pid == 0:
        try:
            count_steps(kill_at)
            work()
        except BaseException as err:
            sys.stderr.write(f"{err!r}\n")
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def count_steps(last: int) -> None:
    """From now on this process ends at the step ``last``: before and after each write there is one."""
    step = 0

    def count() -> None:
        nonlocal step
        step += 1
        if step == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*positional: Any, **named: Any) -> Any:
            count()
            result = work(*positional, **named)
            count()
            return result

        return call

    for owner, name in ((Journal, "begin"), (Journal, "confirm"), (Journal, "end"), (Operations, "write")):
        setattr(owner, name, counted(getattr(owner, name)))


def change(place: Any) -> None:
    async def work() -> None:
        with Journal.open(write=True) as journal:
            changes = place.changes(journal)
            await changes.make(place.context, place.wanted, run=1)
            await changes.undo()

    asyncio.run(work())


def undo(place: Any) -> None:
    with Journal.open(write=True) as journal:
        asyncio.run(place.undo_open(journal))


if __name__ == "__main__":
    Place = runpy.run_path(str(Path(__file__).with_name("conftest.py")))["Place"]
    print(json.dumps(kill_at_every_step(Path(sys.argv[1]), Place.make)))
