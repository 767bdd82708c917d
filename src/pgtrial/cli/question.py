"""pgtrial question: experiment files for what two times of a live server point to."""

from pathlib import Path

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo

_TOLD = 0.01  # share of the time: what is left out of a load, and worth a line


@click.command()
@options.folder
@click.argument("windows", nargs=-1, metavar="[A] [B]")
@options.alarm
@click.option("--server", "dsn", required=True, metavar="DSN", help="The watched server, as for psql; it is only read.")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The folder to write; it does not exist yet.",
)
def command(
    *, folder: Path, windows: tuple[str, ...], alarm: options.WhichAlarm | None, dsn: str, output: Path
) -> None:
    """Write experiment files that ask what the windows A and B of FOLDER point to.

    FOLDER is one of "pgtrial watch"; A and B are those of compare-times. Each
    file has the load that the server remembers (as "pgtrial workload" writes
    it), its settings, the suspected cause put right as an arm, and as the
    margin half of what the incident cost. Nothing is run.

    \b
    Example:
      pgtrial question watch/shop 2026-11-28T04:00/05:00 --server "service=shop" -o questions
    """
    from pgtrial.cli.compare_times import choose_windows
    from pgtrial.engine.production import write_workload
    from pgtrial.errors import StoreError
    from pgtrial.postgres.connect import forget_caller
    from pgtrial.safe_files import make_directories, write_file
    from pgtrial.safe_text import shell_word
    from pgtrial.units import format_share
    from pgtrial.watch.compare import compare
    from pgtrial.watch.folder import read_mark
    from pgtrial.watch.question import questions, read_facts, write_order
    from pgtrial.watch.words import pointers
    from pgtrial.workloads.production.record import trigger_text

    mark = read_mark(folder)
    a, b, remark = choose_windows(folder, windows, alarm)
    found = compare(folder, a, b)
    points = pointers(found)
    if remark:
        echo(remark)
    if not points:
        echo(f"{b} beside {a} points to nothing: no question follows from it.")
        return
    caller = forget_caller()
    facts = read_facts(dsn, caller, mark)
    plan = write_workload(dsn, output, caller, with_values=False)
    asked = tuple(questions(found, points, plan, facts))
    try:
        for path, text in write_order(output, asked):
            make_directories(path.parent)
            write_file(path, text)
    except OSError as err:
        raise StoreError(f'cannot write to "{output}": {err.strerror}') from err
    for each in asked:
        echo(each.pointer.text)
        if each.why_not:
            echo(f"  no experiment: {each.why_not}")
            continue
        echo(f"  {output / each.name}.toml")
    if any(each.text for each in asked):
        echo(f"The load has {format_share(plan.kept)} of the time of the statements that the server remembers.")
        for text in plan.left_out_texts(least=_TOLD):
            echo(f"  {text}")
        for said in plan.triggers:
            echo(trigger_text(said))
        dump, files = shell_word(output / "copy.dump"), shell_word(output)
        echo(f"Then the data: pg_dump --format=custom --file={dump} {shell_word(dsn)}")
        echo(f"and each of them: pgtrial check {files}/NAME.toml; pgtrial run {files}/NAME.toml")
