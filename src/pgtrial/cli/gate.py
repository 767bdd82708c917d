"""What a pipeline asks of run, resume and report: an exit status by the verdict, and files for its pages.

Importing this must stay as cheap as importing click.
"""

import os
import re
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgtrial.cli.terminal import echo
from pgtrial.errors import StoreError
from pgtrial.model.verdict import Verdict
from pgtrial.safe_files import append_file, read_file, write_file
from pgtrial.safe_text import parse_json

if TYPE_CHECKING:
    from pgtrial.findings.findings import Findings
    from pgtrial.findings.history import GateRun

STATUS = {Verdict.SUPPORTED: 0, Verdict.REFUTED: 3, Verdict.INCONCLUSIVE: 4, Verdict.INVALID: 5}
# In which links lead to standard output and the like, and only root makes any; not below them, as in /dev/shm.
_PLACES_OF_DEVICES = frozenset((Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd")))
# It stands in the first line of a comment, by which that is found again.
_NAME = re.compile(r"[A-Za-z0-9_./-]{0,200}")
_LARGEST_EVENT = 25 << 20  # bytes; GitHub sends no larger ones
GITHUB = "GITHUB_STEP_SUMMARY"  # names the file whose Markdown GitHub shows on the page of a workflow's run


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The requested outputs; without any it does nothing. ``name`` tells gates of one experiment apart."""

    asserts: bool = False
    junit: Path | None = None
    summary: Path | None = None
    github: bool = False
    history: Path | None = None
    name: str = ""

    def prepare(self) -> None:
        """Fail now, not after hours, if a file cannot be written, and remove the output of an earlier call.

        A pipeline that finds such a file would take it for this call's. Raises StoreError, and UsageError where
        GitHub's variable is missing.
        """
        if self.history is not None and self.summary is None and not self.github:
            raise click.UsageError("--history is shown by --summary-markdown or --github-summary: add one of them")
        if self.github and not os.environ.get(GITHUB):
            raise click.UsageError(f"--github-summary: the environment variable {GITHUB} is not set")
        for path in filter(None, (self.junit, self.summary)):
            try:
                _try_out(path)
            except OSError as error:
                raise _cannot_write(path, error) from error

    def write(self, findings: "Findings") -> None:
        """Write the files, each whole or not at all. Raises StoreError."""
        for path, text, is_added in self._texts(findings):
            try:
                if is_added:
                    _append(path, text)
                else:
                    _write_whole(path, text)
            except OSError as error:
                raise _cannot_write(path, error) from error

    def leave(self, findings: "Findings") -> None:
        """Exit with the status of the verdict if requested."""
        if not self.asserts:
            return
        from pgtrial.report.gate import gate_verdict, unfinished_text

        missing = unfinished_text(findings)
        if missing and findings.hypothesis.verdict is not Verdict.INVALID:
            echo(f"not finished: {missing}, which --assert takes as inconclusive", err=True)
        sys.exit(STATUS[gate_verdict(findings)])

    def _texts(self, findings: "Findings") -> Iterator[tuple[Path, str, bool]]:
        """Path, text, and whether to append it to the file."""
        if self.junit is not None:
            from pgtrial.report.gate import render_junit

            yield self.junit, render_junit(findings, gate=self.name), False
        if self.summary is not None or self.github:
            from pgtrial.report.markdown import render_summary

            summary = render_summary(findings, gate=self.name)
            if self.history is not None:
                from pgtrial.findings.history import render_history
                from pgtrial.report.history import entry_of, render_comment

                earlier = self._read_history()
                summary = render_comment(findings, earlier, gate=self.name)
                entry = entry_of(findings, gate=self.name, commit=pipeline_commit())
                yield self.history, render_history([*earlier, entry]), False
            if self.summary is not None:
                yield self.summary, summary, False
            if self.github:
                yield Path(os.environ[GITHUB]), f"{summary}\n", True

    def _read_history(self) -> "tuple[GateRun, ...]":
        """What earlier runs have noted; nothing in the first one."""
        from pgtrial.findings.history import LARGEST, parse_history

        if self.history is None:
            return ()
        try:
            return parse_history(read_file(self.history, limit=LARGEST).decode(errors="replace"))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StoreError(f'cannot read "{self.history}": {error.strerror}') from error


NO_GATE = Gate()


def check_gate_name(name: str) -> str:
    """The name, which others read in comments and files. Raises BadParameter."""
    if not _NAME.fullmatch(name):
        raise click.BadParameter('only letters A to Z, digits and "_", ".", "/" and "-", at most 200 of them')
    return name


def pipeline_commit() -> str:
    """The commit that a pipeline of GitHub or GitLab is about, "" elsewhere."""
    found = _head_of_pull_request() or os.environ.get("GITHUB_SHA") or os.environ.get("CI_COMMIT_SHA") or ""
    return found if re.fullmatch("[0-9a-f]{7,64}", found) else ""


def _head_of_pull_request() -> str:
    """The last commit of a pull request's branch. GITHUB_SHA is GitHub's own merge of it, which is on no branch."""
    try:
        event = parse_json(read_file(Path(os.environ["GITHUB_EVENT_PATH"]), limit=_LARGEST_EVENT))
        return str(event["pull_request"]["head"]["sha"])
    except (KeyError, TypeError, OSError, ValueError):
        return ""


def _cannot_write(path: Path, error: OSError) -> StoreError:
    return StoreError(f'cannot write "{path}": {error.strerror}')


def _is_special(path: Path) -> bool:
    """Whether it is a pipe, or something like /dev/stdout, which must not be replaced by a file.

    A link anywhere else that leads to a device may have been put there by somebody else.
    """
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return _is_device(path) if stat.S_ISLNK(mode) else not stat.S_ISREG(mode)


def _is_device(path: Path) -> bool:
    """Whether nobody but root can put something else there, and a link is what standard output is."""
    return path.absolute().parent in _PLACES_OF_DEVICES


def _try_out(path: Path) -> None:
    if _is_special(path):
        return
    write_file(path, "")
    path.unlink()


def _write_whole(path: Path, text: str) -> None:
    if not _is_special(path):
        write_file(path, text)
        return
    _append(path, text)  # standard output may be a file that has more in it


def _append(path: Path, text: str) -> None:
    if _is_device(path):
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    else:
        append_file(path, text)
