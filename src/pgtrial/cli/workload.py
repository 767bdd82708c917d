"""pgtrial workload: a load like that of an existing server, and how true it is."""

from functools import partial
from pathlib import Path

import click

from pgtrial.cli.terminal import echo


@click.command()
@click.argument("dsn")
@click.option(
    "-o",
    "--output",
    default=None,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The folder to write; it does not exist yet.",
)
@click.option("--values", is_flag=True, help="Read values of the statistics, too: common ones, and histograms.")
@click.option(
    "--check",
    "checked",
    default=None,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="DSN is a copy: send the loads of this folder to it, and say how true they are.",
)
@click.option("--allow-writes", is_flag=True, help="Let --check write to the copy.")
@click.option("--in-place", is_flag=True, help="Let --check write to the copy itself, not to copies of it.")
@click.option("--clients", default=4, show_default=True, type=click.IntRange(1, 1000), help="Sessions of --check.")
@click.option(
    "--seconds", default=20, show_default=True, type=click.IntRange(1, 86400), help="Of --check, for each load."
)
def command(
    *,
    dsn: str,
    output: Path | None,
    values: bool,
    checked: Path | None,
    allow_writes: bool,
    in_place: bool,
    clients: int,
    seconds: int,
) -> None:
    """Make scripts that load a copy as the server at DSN is loaded.

    Reads pg_stat_statements, statistics and schema, and changes nothing. The
    folder has several loads: what the counts do not tell is drawn in several
    ways. Without --values only names, counts and shares leave the server.

    \b
    Examples:
      pgtrial workload "service=shop" --output shop-load
      pgtrial workload "dbname=shop_copy" --check shop-load --allow-writes
    """
    from pgtrial.engine.production import write_workload
    from pgtrial.engine.production_check import TRUTH, check_workload
    from pgtrial.errors import ConsentError
    from pgtrial.postgres.connect import forget_caller
    from pgtrial.units import format_duration, format_share
    from pgtrial.workloads.production.record import NEAREST, told_text, trigger_text

    if (output is None) == (checked is None):
        raise click.UsageError("give --output to write a load, or --check to try one on a copy")
    caller = forget_caller()
    if output is not None:
        plan = write_workload(dsn, output, caller, with_values=values)
        number, kept = sum(len(script.members) for script in plan.scripts), format_share(plan.kept)
        echo(f'wrote "{output}": {number} statements in {len(plan.scripts)} scripts, {kept} of the time')
        if plan.counted_for is not None:
            echo(f"its counts are of {format_duration(plan.counted_for)}: what is said of a call is their mean")
        for text in plan.left_out_texts():
            echo(text)
        if unseen := plan.unseen_text():
            echo(unseen)
        for said in plan.triggers:
            echo(trigger_text(said))
        told = plan.told
        echo(f"transactions: {told_text(told.explained, told.commits, plan.levels)}")
        echo(f'Say how true it is: pgtrial workload "DSN of a copy" --check {output} --allow-writes')
        return
    assert checked is not None
    if not allow_writes:
        raise ConsentError(
            "the load writes to the database", hint="Add --allow-writes, if that is a copy and nobody else's."
        )
    tell = partial(echo, err=True)
    found = check_workload(dsn, checked, caller, clients=clients, seconds=seconds, in_place=in_place, tell=tell)
    for fit in found.fits:
        echo(
            f"{fit.script}: {fit.kind} {fit.told:.3g} → {fit.fitted.value:.3g}, "
            f"{fit.fitted.blocks:.4g} blocks of a call for {fit.statement.blocks_per_call:.4g}"
        )
    for truth in found.truths:
        echo(
            f"{truth.draw}: shares of the calls within {truth.share_error * 100:.1f} percentage points, "
            f"blocks of a call within {format_share(truth.block_error())}, "
            f"parameters take {format_share(truth.drawing)} of the time"
            if truth.matches
            else f"{truth.draw}: none of its scripts can be sent"
        )
        for each in truth.failures:
            out = "left out of it" if truth.draw == NEAREST else f"take it out of {truth.draw}.toml"
            echo(f"  {each.script} fails, and is not in these figures ({out}): {each}")
        for error in truth.errors:
            echo(f"  failed: {error}")
        for drift in truth.drifts if truth.draw == NEAREST else ():
            echo(f"  {drift}")
    echo(f'wrote "{checked / TRUTH}"')
