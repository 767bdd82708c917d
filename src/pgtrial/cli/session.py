"""Steps shared by run, resume, demo and report: do the runs, analyse, write the report, print the verdict."""

import contextlib
import logging
import os
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgtrial.cli.gate import NO_GATE, Gate
from pgtrial.cli.terminal import echo
from pgtrial.engine.events import Event, Observer, RunStarted
from pgtrial.errors import PgTrialError, StoreError
from pgtrial.language import ENGLISH, Language, find_language, speak
from pgtrial.model.run import RunState
from pgtrial.safe_files import write_file
from pgtrial.safe_text import make_visible, shell_word
from pgtrial.store import layout
from pgtrial.store.own_place import is_own, refuse_changeable
from pgtrial.store.state import State

if TYPE_CHECKING:
    from rich.console import Console

    from pgtrial.cli.checked import Checked
    from pgtrial.engine.experiment import Permission
    from pgtrial.engine.folder import Tested
    from pgtrial.findings.findings import Findings
    from pgtrial.fleet.hosts_file import HostsList

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """Findings, and the page that tells them in a language."""

    findings: "Findings"
    language: Language
    page: Path


@dataclass(slots=True, kw_only=True)
class _Announcer:
    """Names the folder at the first run, because an experiment that ends earlier leaves none."""

    folder: Path
    console: "Console"
    tell: Observer
    quiet: bool
    has_begun: bool = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted) and not self.has_begun:
            self.has_begun = True
            if not self.quiet:
                self.console.print(
                    make_visible(f"results: {self.folder}"), highlight=False, markup=False, soft_wrap=True
                )
        self.tell(event)


def run_new(
    checked: "Checked",
    results: Path,
    *,
    permission: "Permission",
    language: Language,
    gate: Gate = NO_GATE,
    quiet: bool = False,
    tested: "Tested | None" = None,
    hosts: "HostsList | None" = None,
) -> None:
    """Make the result folder of an experiment with its plan, and run that, on ``hosts`` if there are several;
    ``tested`` as of ``create_folder``.
    """
    # Here and not when they are needed: Ctrl-C while they are imported would leave a folder without a run.
    import pgtrial.cli.console
    import pgtrial.engine.experiment

    if hosts is not None:
        import pgtrial.fleet.experiment  # noqa: F401
    from pgtrial.engine.folder import create_folder
    from pgtrial.knobs.slowdown import require_compiler

    if checked.proofs and checked.loaded.experiment.target.host is None:
        require_compiler()
    proofs = {arm: (proof.loaded, proof.plan) for arm, proof in checked.proofs.items()}
    folder = create_folder(checked.loaded, checked.plan, results, tested=tested, proofs=proofs)
    run_and_report(folder, permission=permission, language=language, gate=gate, quiet=quiet, is_new=True, hosts=hosts)


def run_and_report(
    folder: Path,
    *,
    permission: "Permission",
    language: Language,
    gate: Gate = NO_GATE,
    quiet: bool = False,
    is_new: bool = False,
    hosts: "HostsList | None" = None,
) -> None:
    """Run, then report whatever there is: an experiment that ended early has finished runs, too.

    ``is_new`` as of ``run_experiment``. Of a bug, the traceback is left in the folder.
    """
    from pgtrial.cli.console import ProgressConsole, show_progress
    from pgtrial.cli.on_fleet import run_fleet
    from pgtrial.engine.experiment import run_experiment
    from pgtrial.engine.proofs import find_proofs_left, run_proof
    from pgtrial.experiment_file.places import is_directory

    with _keeping_traceback(folder):
        console = ProgressConsole(stderr=True)
        has_begun = hosts is not None
        try:
            if hosts is not None:
                run_fleet(folder, hosts, permission=permission, console=console, quiet=quiet, is_new=is_new)
            else:
                with show_progress(console, quiet=quiet, folder=folder) as observer:
                    announcer = _Announcer(folder=folder, console=console, tell=observer, quiet=quiet)
                    run_experiment(folder, permission=permission, tell=announcer, is_new=is_new)
                has_begun = announcer.has_begun
                for proof in find_proofs_left(folder):
                    if not quiet:
                        console.print(make_visible(f"what limits {proof.name}:"), highlight=False, markup=False)
                    with show_progress(console, quiet=quiet, folder=proof) as observer:
                        run_proof(folder, proof, permission=permission, tell=observer)
                    has_begun = True
        except (PgTrialError, KeyboardInterrupt) as error:
            if is_directory(folder):
                with contextlib.suppress(PgTrialError):  # the first error is the one to be told
                    if _has_finished_runs(folder):
                        reported = write_report(folder, language=language)
                        print_report(reported)
                        gate.write(reported.findings)
                if isinstance(error, KeyboardInterrupt):
                    echo(f'finished runs are kept; go on with "pgtrial resume {shell_word(folder)}"', err=True)
            raise
        reported = write_report(folder, language=language)
        findings = reported.findings
        if not has_begun and not quiet:
            done = sum(arm.runs_done for arm in findings.experiment.arms)
            echo(f"all {done} runs are done; nothing to run", err=True)
        print_report(reported)
        gate.write(findings)
        gate.leave(findings)


@contextlib.contextmanager
def _keeping_traceback(folder: Path) -> Iterator[None]:
    try:
        yield
    except (PgTrialError, BrokenPipeError, click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except Exception as error:
        with contextlib.suppress(OSError, PgTrialError):
            has_finished = _has_finished_runs(folder)
            write_file(folder / layout.TRACEBACK, "".join(traceback.format_exception(error)))
            name = shell_word(folder)
            kept = f'The finished runs are kept: "pgtrial report {name}" tells of them, and ' if has_finished else ""
            error.add_note(f'Report {folder / layout.TRACEBACK}. {kept}"pgtrial resume {name}" goes on.')
        raise


def _has_finished_runs(folder: Path) -> bool:
    """Whether there is something to report."""
    with contextlib.closing(State.open(folder)) as state:
        return any(run.state is RunState.DONE for run in state.runs())


def write_report(
    folder: Path, *, output: Path | None = None, language: Language | None = None, rules: int | None = None
) -> Reported:
    """Analyse the folder and write findings.json and report.html (or ``output``). Raises StoreError.

    With an ``output``, the folder itself may be one that cannot be written, or is not ours. ``rules``: as of
    ``analyze``.
    """
    from pgtrial.analysis.analyze import analyze
    from pgtrial.report.html import write_html
    from pgtrial.store.findings_file import write_findings

    if output is None:
        refuse_changeable(
            folder,
            hint="Name a file for the page with --output: then the folder is only read. Or copy the folder into a "
            "directory of your own, and name the copy.",
        )
    findings = analyze(folder, rules=rules)
    path = output or folder / layout.REPORT
    if output is None or (os.access(folder, os.W_OK) and is_own(folder)):
        _log.info("wrote %s", write_findings(findings, folder))
    spoken = language or find_language(ENGLISH)
    with speak(spoken):
        try:
            write_html(findings, path)
        except OSError as error:
            raise StoreError(f'cannot write "{path}": {error.strerror}') from error
    _log.info("wrote %s", path)
    return Reported(findings=findings, language=spoken, page=path)


def print_report(reported: Reported) -> None:
    """Print the summary and the path of the page."""
    from pgtrial.report.text import render_text

    with speak(reported.language):
        echo(render_text(reported.findings))
    echo(f"\nreport: {reported.page}")
