"""pgtrial register: what to publish before a run, so that nobody can say that the claim came after the data."""

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo


@click.command()
@options.file
@options.allow_files
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(*, file: Path, allow_files: tuple[Path, ...], as_json: bool) -> None:
    """Print the digest of the experiment in FILE, and the time; start and change nothing.

    The digest is of the claim, its metric and margin, the arms, the load, the
    data and the design, with the contents of scripts and data files. Publish it
    before the first run: the report of the experiment shows the same one. Where
    FILE is in a git repository, the commit is printed as well.

    \b
    Examples:
      pgtrial register first.toml
    """
    from pgtrial.cli.checked import check_file
    from pgtrial.design.registration import register
    from pgtrial.engine.folder import digest_contents

    checked = check_file(file, allow_files=allow_files)
    plan = checked.plan
    contents = digest_contents(checked.loaded.experiment, plan.arms, checked.loaded.folder)
    facts = {
        "digest": register(plan.experiment, plan.arms, rules=plan.rules.version, contents=contents).digest,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "claim": plan.experiment.hypothesis.claim,
        "file": str(file),
        "commit": _commit_of(file),
    }
    if as_json:
        echo(json.dumps(facts, indent=2))
        return
    for name, text in facts.items():
        if text:
            echo(f"{name:<7} {text}")


def _commit_of(file: Path) -> str:
    """The commit of the repository that has the file as it is, "" where there is none.

    Only questions that start no program: a repository from elsewhere may name some in its configuration.
    """
    try:
        committed = _ask_git(file, "rev-parse", f"HEAD:./{file.name}")
        current = _ask_git(file, "hash-object", "--no-filters", "--", file.name)
        return _ask_git(file, "rev-parse", "HEAD") if committed == current else ""
    except (OSError, subprocess.SubprocessError):
        return ""


def _ask_git(file: Path, *words: str) -> str:
    asked = subprocess.run(
        ("git", "-C", str(file.resolve().parent), *words),
        # Git would fetch an object that is missing from a partial clone, with the program that its configuration names.
        env={**os.environ, "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"},
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    return asked.stdout.strip()
