"""Before an experiment is run: how long it will take, and what stands in its way on this machine."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gallery.entries import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """``seconds`` are what "pgtrial plan" expects; ``hindrance`` says in a sentence why it cannot run, "" if it can."""

    seconds: float
    hindrance: str


def look_ahead(entry: Entry, *, host_changes: bool) -> Prospect:
    """What "pgtrial plan" says of the quick file on this machine; ``host_changes``: whether they are allowed."""
    planned = subprocess.run(
        [sys.executable, "-m", "pgtrial", "plan", "--json", str(entry.quick)],
        capture_output=True,
        text=True,
        check=False,
    )
    if planned.returncode != 0:
        lines = planned.stderr.strip().splitlines()
        return Prospect(seconds=0.0, hindrance=lines[0] if lines else "pgtrial plan failed")
    plan = json.loads(planned.stdout)
    hindrance = find_hindrance(
        plan, changes_host=entry.changes_host, is_root=os.geteuid() == 0, host_changes=host_changes
    )
    return Prospect(seconds=plan["seconds"]["total"], hindrance=hindrance)


def find_hindrance(plan: Mapping[str, Any], *, changes_host: bool, is_root: bool, host_changes: bool) -> str:
    """Why an experiment with this plan (``pgtrial plan --json``) cannot run here, "" if it can."""
    missing = [server["missing"] for server in plan["servers"] if server["missing"]]
    if missing:
        return "; ".join(dict.fromkeys(missing))
    changes = plan["host_changes"]
    if changes_host and not (is_root and host_changes):
        what = ", ".join(dict.fromkeys(change["knob"] for change in changes)) or "page cache"
        remedy = "allow that with --allow-host-changes" if is_root else "run it as root"
        return f"it changes the host ({what}); {remedy}"
    problems = [f"{change['knob']}: {change['problem']}" for change in changes if change["problem"]]
    return "; ".join(dict.fromkeys(problems))
