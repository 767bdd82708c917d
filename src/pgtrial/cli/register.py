"""pgtrial register: what to publish before a run, so that nobody can say that the claim came after the data."""

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import click


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(*, file: Path, as_json: bool) -> None:
    """Print the digest of the experiment in FILE, and the time; start and change nothing.

    The digest is of the claim, its metric and margin, the arms, the load, the
    data and the design. Publish it before the first run: the report of the
    experiment shows the same one. Where FILE is in a git repository, the commit
    is printed as well.

    \b
    Examples:
      pgtrial register first.toml
    """
    from pgtrial.cli.checked import check_file
    from pgtrial.design.registration import plan_digest

    plan = check_file(file).plan
    facts = {
        "digest": plan_digest(plan.experiment, plan.arms),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "claim": plan.experiment.hypothesis.claim,
        "file": str(file),
        "commit": _commit_of(file),
    }
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    for name, text in facts.items():
        if text:
            click.echo(f"{name:<7} {text}")


def _commit_of(file: Path) -> str:
    """The commit that has the file as it is, "" where there is none."""
    asked = ("git", "-C", str(file.resolve().parent))
    try:
        changed = subprocess.run(
            [*asked, "status", "--porcelain", "--", file.name], capture_output=True, text=True, timeout=10, check=True
        )
        found = subprocess.run(
            [*asked, "log", "-1", "--format=%H", "--", file.name],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return "" if changed.stdout.strip() else found.stdout.strip()
