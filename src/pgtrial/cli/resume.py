"""pgtrial resume: continue an interrupted experiment."""

from pathlib import Path

import click

from pgtrial.cli import options
from pgtrial.cli.gate import Gate
from pgtrial.language import Language


@click.command()
@options.folder
@options.work_directory
@options.host_changes
@options.allow_code
@options.allow_files
@options.allow_writes
@options.fleet
@options.language
@options.gate
@options.quiet
def command(
    *,
    folder: Path,
    work_directory: Path | None,
    host_changes: bool,
    allow_code: bool,
    allow_files: tuple[Path, ...],
    allow_writes: bool,
    fleet: str | None,
    language: Language,
    gate: Gate,
    quiet: bool,
) -> None:
    """Finish the schedule in result FOLDER; finished runs are kept.

    \b
    Example:
      pgtrial resume results/first-20260120T101500Z
    """
    from pgtrial.cli.consent import get_consent, get_write_consent
    from pgtrial.cli.on_fleet import hosts_of, read_hosts
    from pgtrial.cli.session import run_and_report
    from pgtrial.engine.experiment import Permission, writes_left
    from pgtrial.engine.proofs import all_uses_left

    gate.prepare()
    hosts = hosts_of(folder, read_hosts(fleet))
    code = get_consent(all_uses_left(folder, allow_files), allowed=allow_code)
    left, copy_of = writes_left(folder)
    writes = get_write_consent(left, copy_of=copy_of, allowed=allow_writes)
    permission = Permission(
        work_base=work_directory, host_changes=host_changes, code=code, writes=writes, files=allow_files
    )
    run_and_report(
        folder,
        permission=permission,
        language=language,
        gate=gate,
        quiet=quiet,
        hosts=hosts,
    )
