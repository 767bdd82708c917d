"""pgtrial status: the progress of an experiment, its results so far, and leftovers of a killed pgtrial."""

import json
from pathlib import Path

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo

FEWEST_BLOCKS = 3  # before that an interval says next to nothing


@click.command()
@click.argument("folder", required=False, type=options.FolderPath())
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(*, folder: Path | None, as_json: bool) -> None:
    """Show the progress of the experiment in result FOLDER; change nothing.

    Without FOLDER, show what pgtrial is changing from this machine, or has left changed, for whatever it was: also
    what belongs to no result folder, as copies of databases that are being made. It also shows processes and
    directories of data that a killed pgtrial has left here.

    From the third complete block on it also shows the estimate so far, and the change that these blocks can detect.
    Looking is free, but stopping because of what you see is not: an experiment that ends when it looks good finds too
    much. The rule stop = "decision" in [design] stops safely.

    \b
    Examples:
      pgtrial status results/first-20260120T101500Z
      pgtrial status
    """
    from pgtrial.engine.status import read_status
    from pgtrial.report.text import wrap_lines
    from pgtrial.report.words import plural
    from pgtrial.safe_text import shell_word

    if folder is None:
        _show_changes(as_json)
        return
    status = read_status(folder)
    estimate = _estimate(folder) if status.blocks >= FEWEST_BLOCKS else None
    if as_json:
        echo(json.dumps({**status.as_dict(), "estimate": estimate}, indent=2))
        return
    echo(f"{status.name}: {status.done} of {status.slots} runs done, {status.state}")
    if status.invalid:
        attempts = plural(status.invalid, "invalid or interrupted attempt")
        echo(f"  {attempts}, which {'does' if status.invalid == 1 else 'do'} not count")
        if status.reason:
            echo("\n".join(wrap_lines(f"the last invalid one: {status.reason}", 80, indent="    ", first="  ")))
    if status.current:
        echo(f"  now: {status.current}")
    for line in status.arms:
        echo(f"  {line}")
    for line in status.proofs:
        echo(f"  limits of {line}")
    if estimate is not None:
        after = f"{'After' if status.state == 'complete' else 'So far, after'} {status.blocks} blocks"
        echo("\n".join(wrap_lines(f"{after}: {estimate}", 80, indent="  ", first="")))
    if status.pending:
        echo("Changed, and put back at the end:" if status.state == "running" else "Changed, and not put back yet:")
        for text in status.pending:
            echo("\n".join(wrap_lines(text, 80, indent="    ", first="  ")))
        if status.state != "running":
            echo('Put it back with "pgtrial restore".')
    if status.processes:
        what = (
            "1 process of it still runs" if status.processes == 1 else f"{status.processes} processes of it still run"
        )
        echo(f'{what}: "pgtrial restore" ends what is left.')
    if status.state == "interrupted":
        echo(f'Go on with "pgtrial resume {shell_word(folder)}".')


def _show_changes(as_json: bool) -> None:
    from pgtrial.engine.leftovers import find_leftovers, raise_unreadable
    from pgtrial.engine.restore import describe, find_unrestored
    from pgtrial.report.text import wrap_lines
    from pgtrial.safe_text import make_visible
    from pgtrial.store.journal import Journal

    with Journal.open(write=False) as journal:
        found = find_unrestored(journal)
    leftovers, unreadable = find_leftovers()
    if as_json:
        tables: dict[str, object] = {
            name: [
                {"change": describe(each.entry), "folder": each.entry.folder, "pid": each.owner.pid} for each in records
            ]
            for name, records in (("at_work", found.in_use), ("left", found.left))
        }
        tables["leftovers"] = [
            {
                "folder": str(each.belongings.folder),
                "processes": len(each.processes),
                "directories": [str(path) for path in each.directories],
                "hosts": each.elsewhere,
            }
            for each in leftovers
        ]
        echo(json.dumps(tables, indent=2))
        raise_unreadable(unreadable)
        return
    ended = "Left by a pgtrial that has ended"
    groups: dict[str, list[str]] = {}
    for each in (*found.in_use, *found.left):
        whose = f"Process {each.owner.pid} is at work" if each in found.in_use else ended
        groups.setdefault(f'{whose}, for "{each.entry.folder}":', []).append(describe(each.entry))
    for leftover in leftovers:
        processes = len(leftover.processes)
        what = [f"{processes} process{'' if processes == 1 else 'es'}"] if processes else []
        group = groups.setdefault(f'{ended}, for "{leftover.belongings.folder}":', [])
        group += [*what, *map(str, leftover.directories)]
    for title, texts in groups.items():
        echo(make_visible(title))
        for text in texts:
            echo("\n".join(wrap_lines(text, 80, indent="    ", first="  ")))
    if found.left:
        echo('Put it back with "pgtrial restore".')
    elif leftovers:
        echo('Clear it with "pgtrial restore".')
    elif not found.in_use and not unreadable:
        echo(f"nothing is changed: {journal.path} lists no change that is at work or left")
    raise_unreadable(unreadable)


def _estimate(folder: Path) -> str:
    """The current estimate for the hypothesis, and the effect that these blocks can detect."""
    from pgtrial.analysis.analyze import analyze
    from pgtrial.findings.message import say
    from pgtrial.report.words import detectable_text

    findings = analyze(folder)
    reason = " ".join((say(findings.hypothesis.reason), *findings.beside_verdict))
    if findings.noise.detectable is None:
        return reason
    return f"{reason} A change of {detectable_text(findings)} would be found with 80 % probability."
