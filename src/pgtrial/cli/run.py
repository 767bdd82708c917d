"""pgtrial run: run an experiment."""

from pathlib import Path

import click

from pgtrial.cli import options
from pgtrial.cli.gate import Gate
from pgtrial.language import Language


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "-s",
    "--setting",
    "settings",
    multiple=True,
    metavar="NAME=A,B",
    help="Without a file: compare values of a setting; the first is the control. Repeat to combine settings; "
    "a single value applies to all arms. NAME may be KNOB:NAME, such as sysctl:vm.swappiness.",
)
@click.option(
    "--mix",
    default=None,
    metavar="NAME",
    help="Without a file: oltp, olap, tpcc-like, tpcb-like, simple-update (default), select-only.",
)
@click.option("--clients", default=None, metavar="N", type=int, help="Without a file: number of clients. Default: 8.")
@click.option(
    "--duration",
    default=None,
    metavar="TIME",
    help="Without a file: measured time per run. Default: 30s, or by the budget.",
)
@click.option(
    "--warmup",
    default=None,
    metavar="TIME",
    help='Without a file: load before the measured time: a time, 0, or "auto" (until steady; the default).',
)
@click.option(
    "--scale", default=None, metavar="N", type=int, help="Without a file: pgbench scale. Default: 10, about 150 MB."
)
@click.option("--blocks", default=None, metavar="N", type=int, help="Without a file: number of blocks. Default: 6.")
@click.option(
    "--budget",
    default=None,
    metavar="TIME",
    help="Without a file: total time, such as 45min, instead of blocks.",
)
@click.option(
    "--method",
    default=None,
    metavar="NAME",
    help="Without a file: blocks (default), interleaved, duet, or auto: the cheapest valid one.",
)
@click.option(
    "--slice",
    default=None,
    metavar="TIME",
    help="Without a file: length of a slice of interleaved arms. Default: 1s, or as the settings need it.",
)
@click.option(
    "--margin", default=None, metavar="PERCENT", help="Without a file: smallest effect that matters. Default: 3%."
)
@click.option(
    "--placebo/--no-placebo",
    default=None,
    help="Without a file: a second copy of the control, which must show no effect. Default: none.",
)
@click.option(
    "--postgres",
    default=None,
    metavar="WHICH",
    help="Without a file: major version, such as 16, or directory with the programs. Default: the first found.",
)
@click.option(
    "--seed", default=None, metavar="N", type=int, help="Without a file: seed of the random order. Default: drawn."
)
@options.results
@options.work_directory
@options.host_changes
@options.allow_code
@options.allow_files
@options.allow_writes
@options.fleet
@options.language
@options.revision
@options.gate
@options.quiet
def command(
    *,
    file: Path | None,
    settings: tuple[str, ...],
    results: Path,
    work_directory: Path | None,
    host_changes: bool,
    allow_code: bool,
    allow_files: tuple[Path, ...],
    allow_writes: bool,
    fleet: str | None,
    language: Language,
    revision: str,
    gate: Gate,
    quiet: bool,
    **quick: "str | int | bool | None",
) -> None:
    """Run the experiment in FILE, or a quick one given by options.

    \b
    Examples:
      pgtrial run experiment.toml
      pgtrial run experiment.toml --assert --junit pgtrial.xml
      pgtrial run experiment.toml --fleet hosts.toml
      pgtrial run -s shared_buffers=128MB,1GB --mix select-only --budget 10min
    """
    from pgtrial.cli.attempts import claim_about
    from pgtrial.cli.checked import Checked, load_file_or_quick
    from pgtrial.cli.consent import get_consent, get_write_consent
    from pgtrial.cli.on_fleet import check_for, read_hosts
    from pgtrial.cli.plan_facts import code_uses
    from pgtrial.cli.session import run_new
    from pgtrial.engine.consent import writes_of
    from pgtrial.engine.experiment import Permission
    from pgtrial.experiment_file.load import Place

    def check(place: Place) -> Checked:
        return load_file_or_quick(file, settings, quick, allow_code=allow_code, allow_files=allow_files, place=place)

    hosts = read_hosts(fleet)
    checked = check_for(hosts, check)
    gate.prepare()
    loaded = checked.loaded
    # Who gives options instead of a file has named everything in it.
    code = get_consent(code_uses(checked), allowed=allow_code or file is None)
    writes = get_write_consent(
        writes_of(loaded.experiment, checked.plan.arms),
        copy_of=loaded.experiment.target.copy_of,
        allowed=allow_writes,
    )
    permission = Permission(
        work_base=work_directory,
        host_changes=host_changes,
        code=code,
        writes=writes,
        files=(loaded.folder, *allow_files),
    )
    tested = claim_about(checked, revision)
    run_new(
        checked,
        results,
        permission=permission,
        language=language,
        gate=gate,
        quiet=quiet,
        tested=tested,
        hosts=hosts,
    )
