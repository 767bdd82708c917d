"""pgtrial restore: undo host changes that a killed pgtrial left behind."""

import json
from collections.abc import Awaitable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import click

from pgtrial.cli.terminal import echo

if TYPE_CHECKING:
    from pgtrial.engine.leftovers import Leftover
    from pgtrial.model.change import Undone
    from pgtrial.store.journal import JournalRecord


@click.command()
@click.option("--dry-run", is_flag=True, help="Only show what would be restored.")
@click.option(
    "--forget",
    "forgotten",
    type=int,
    multiple=True,
    metavar="NUMBER",
    help="Take this change off the list without undoing it: it cannot be undone, or you have undone it yourself.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(*, dry_run: bool, forgotten: tuple[int, ...], as_json: bool) -> None:
    """Undo every change that pgtrial has made to hosts, the last change first, and clear what it left on this one.

    An experiment does that itself when it ends, fails or is interrupted. This is for what is left after it was
    killed, after a reboot, or when putting back failed: settings, and on this machine processes and directories of
    data. What somebody else has changed since is left as it is, and so is all that belongs to an experiment that is
    still running.

    \b
    Examples:
      pgtrial restore --dry-run
      pgtrial restore
    """
    import asyncio

    from pgtrial.engine.leftovers import clear, find_leftovers, raise_unreadable
    from pgtrial.engine.restore import find_unrestored, forget, undo_open
    from pgtrial.hosts.connect import open_host
    from pgtrial.postgres.connect import forget_caller
    from pgtrial.postgres.existing.knobs import restoring_knobs
    from pgtrial.store.journal import Journal

    with Journal.open(write=False) as journal:  # where there is nothing to do, nothing is made
        found = find_unrestored(journal)
    report = _Report(as_json=as_json)
    try:
        leftovers, unreadable = ((), ()) if forgotten else find_leftovers()
        for leftover in leftovers:
            if not dry_run:
                clear(leftover)
            report.show_leftover(leftover, "to be cleared" if dry_run else "cleared")
        for record in found.in_use:
            report.show(record, "in use", f'By pgtrial, process {record.owner.pid}, for "{record.entry.folder}".')
        if forgotten:
            with Journal.open(write=bool(found.left)) as journal:
                for record in forget(journal, forgotten):
                    report.show(record, "taken off the list")
        elif dry_run:
            for record in found.left:
                report.show(record, "to be restored")
        elif found.left:
            with Journal.open(write=True) as journal:
                knobs = restoring_knobs(forget_caller(), say=partial(echo, err=True))
                asyncio.run(_until_stopped(undo_open(journal, knobs=knobs, host_of=open_host, tell=report.show_undone)))
        elif not leftovers and not unreadable and not as_json:
            echo(f"nothing to restore: {journal.path} lists no change that is left")
        raise_unreadable(unreadable)  # the others are done with
    finally:
        report.close()


async def _until_stopped(work: Awaitable[None]) -> None:
    """Ctrl-C lets it finish the change at work, which may wait for long; a second one does not."""
    import asyncio

    from pgtrial.engine.signals import until_signalled

    task = asyncio.current_task()
    assert task is not None  # this is a coroutine that runs

    def break_off() -> None:
        task.cancel()

    say = partial(echo, "interrupted: it finishes the change at work; Ctrl-C again breaks it off", err=True)
    await until_signalled(work, on_signal=say, on_second=break_off)


@dataclass(slots=True, kw_only=True)
class _Report:
    """Print lines as changes are undone, or one JSON document at the end."""

    as_json: bool
    changes: list[dict[str, object]] = field(default_factory=list)
    leftovers: list[dict[str, object]] = field(default_factory=list)

    def show_leftover(self, leftover: "Leftover", outcome: str) -> None:
        folder, processes = str(leftover.belongings.folder), len(leftover.processes)
        left = [str(path) for path in leftover.directories]
        if not self.as_json:
            what = [f"{processes} process{'' if processes == 1 else 'es'}"] if processes else []
            echo(f"{', '.join((*what, *left))}: {outcome}")
            echo(f"   Left by a pgtrial that was killed, for {json.dumps(folder)}.")
            for host in leftover.elsewhere:
                echo(f'   It has data on {host} too: "pgtrial resume" removes them.')
        facts = {"folder": folder, "processes": processes, "directories": left, "hosts": leftover.elsewhere}
        self.leftovers.append({**facts, "outcome": outcome})

    def show(self, record: "JournalRecord", outcome: str, text: str = "") -> None:
        entry, change = record.entry, record.entry.change
        if not self.as_json:
            way = f"{change.name} {change.new_text} → {change.old_text}"
            echo(f"#{entry.id} {entry.host}, {change.knob}: {way}, {outcome}")
            if text:
                echo(f"   {text}")
        self.changes.append(
            {
                "id": entry.id,
                "t": entry.t,
                "host": entry.host,
                "folder": entry.folder,
                "run": entry.run,
                "pid": record.owner.pid,
                "knob": change.knob,
                "name": change.name,
                "from": change.new_text,
                "to": change.old_text,
                "outcome": outcome,
                "text": text,
            }
        )

    def show_undone(self, record: "JournalRecord", undone: "Undone") -> None:
        self.show(record, undone.outcome, undone.text)

    def close(self) -> None:
        if self.as_json:
            echo(json.dumps({"changes": self.changes, "leftovers": self.leftovers}, indent=2))
