"""What run, resume and demo share: do the runs, analyse, write the report, say the verdict."""

import sys
from pathlib import Path

import click
from rich.console import Console

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.findings import Findings, write_findings
from pgtrial.cli.console import show_progress
from pgtrial.engine.experiment import run_experiment
from pgtrial.errors import PgTrialError
from pgtrial.model.verdict import Verdict
from pgtrial.report.html import render_html
from pgtrial.report.text import render_text
from pgtrial.store import layout

GATE_STATUS = {Verdict.SUPPORTED: 0, Verdict.REFUTED: 3, Verdict.INCONCLUSIVE: 4, Verdict.INVALID: 5}


def run_and_report(
    folder: Path,
    *,
    work_directory: Path | None = None,
    gate: bool = False,
    quiet: bool = False,
) -> None:
    """Run, then report whatever there is: also an experiment that ended early has finished runs to show."""
    console = Console(stderr=True)
    if not quiet:
        console.print(f"results: {folder}", highlight=False, soft_wrap=True)
    try:
        with show_progress(console, quiet=quiet) as observer:
            run_experiment(folder, work_base=work_directory, tell=observer)
    except (PgTrialError, KeyboardInterrupt):
        if folder.is_dir():
            report(folder)
        raise
    findings = report(folder)
    if gate:
        sys.exit(GATE_STATUS[findings.hypothesis.verdict])


def report(folder: Path, *, output: Path | None = None) -> Findings:
    """Analyse the folder, write findings.json and report.html, print the summary and where the report is."""
    findings = analyze(folder)
    write_findings(findings, folder)
    path = output or folder / layout.REPORT
    part = path.with_name(f"{path.name}.part")
    part.write_text(render_html(findings), encoding="utf-8")
    part.replace(path)
    click.echo(render_text(findings))
    click.echo(f"report: {path}")
    return findings
