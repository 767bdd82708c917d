"""Run the experiments whose cause is known, and see whether the analysis names it.

    python -m ground_truth --allow-host-changes           # all of them, about 45 minutes on 2 CPUs, as root
    python -m ground_truth --only row-locks wal-flush     # some; the page is left as it is
    python -m ground_truth --again                        # analyse the folders of the last runs anew, and judge them

Each case is an experiment file in ground_truth/experiments; cases.toml has the truth. Result folders and what pgtrial
printed are in --results. The tables are written to docs/ground-truth.md. Exit status 1 if a cause is not named right,
was not there, parts of the latency do not add up, pgtrial failed, or something is left on the host.
"""

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ground_truth.cases import Case, choose, read_cases
from ground_truth.left_overs import find_left, read_host
from ground_truth.needs import SwapAreaError, find_hindrance, find_problem, swap_area
from ground_truth.page import PAGE, put_between, render
from ground_truth.scoring import Outcome, State, judge
from ground_truth.volumes import VolumeError, limited_volume


def run_case(case: Case, results: Path, *, host_changes: bool) -> Outcome:
    """Run a case's experiment and judge what was found."""
    hindrance = find_hindrance(case, host_changes=host_changes)
    if hindrance:
        return Outcome(case=case, state=State.NOT_RUN, reason=hindrance)
    folder = results / case.name
    folder.mkdir(parents=True, exist_ok=True)
    permission = ["--allow-code", *(["--allow-host-changes"] if case.changes_host else [])]
    # No run of a case is another attempt at a claim: what is tried is whether its cause is named.
    arguments = [
        "run",
        str(case.file),
        "--results",
        str(folder),
        *permission,
        "--quiet",
        "--revision",
        uuid.uuid4().hex,
    ]
    try:
        with contextlib.ExitStack() as stack:
            if "swap" in case.needs:
                stack.enter_context(swap_area(folder))
            within: tuple[str, ...] = ()
            if case.outside:
                within = stack.enter_context(limited_volume(folder, case.outside))
                if problem := find_problem(case):
                    return Outcome(case=case, state=State.NOT_RUN, reason=problem)
            return _judge_after(case, folder, arguments, within=within)
    except SwapAreaError as err:
        return Outcome(case=case, state=State.NOT_RUN, reason=f"there is no swap, and none could be made: {err}")
    except VolumeError as err:
        return Outcome(case=case, state=State.NOT_RUN, reason=f"no volumes could be made: {err}")


def judge_again(case: Case, results: Path) -> Outcome:
    """Analyse the last finished folder of a case anew, and judge what is found."""
    found = last_folder(results / case.name)
    if found is None:
        return Outcome(case=case, state=State.NOT_RUN, reason=f"no finished run of it in {results / case.name}")
    return _judge_after(case, results / case.name, ["report", str(found)])


def last_folder(place: Path) -> Path | None:
    """The newest result folder with findings; the time is part of the names."""
    return max((path.parent for path in place.glob("*/findings.json")), default=None)


def _judge_after(case: Case, folder: Path, arguments: Sequence[str], *, within: Sequence[str] = ()) -> Outcome:
    """Call pgtrial, after the words ``within``; what it prints goes to a file.

    Ctrl-C reaches it too, and it is given the time to put all back.
    """
    printed = folder / "printed.txt"
    with printed.open("w", encoding="utf-8") as output:
        command = [*within, sys.executable, "-m", "pgtrial", *arguments]
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            status = process.wait()
        except KeyboardInterrupt:
            process.wait()
            raise
    found = last_folder(folder)
    if status != 0 or found is None:
        said = [line for line in printed.read_text(encoding="utf-8").splitlines() if line.startswith("error:")]
        return Outcome(case=case, state=State.FAILED, reason=f"{said[0] if said else 'no error'}; see {printed}")
    document: dict[str, Any] = json.loads((found / "findings.json").read_text(encoding="utf-8"))
    return judge(case, document)


def describe_machine(results: Path) -> str:
    """A sentence on where and with which server the cases ran."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = set()
    for path in results.glob("*/*/findings.json"):
        versions.add(json.loads(path.read_text(encoding="utf-8"))["experiment"]["target"].get("postgres version", ""))
    servers = " and ".join(sorted(versions - {""})) or "unknown"
    return f"PostgreSQL {servers} on {os.cpu_count()} CPUs, {memory:.0f} GB of memory, Linux {platform.release()}."


def show(outcome: Outcome, seconds: float) -> None:
    found = f"found {outcome.found}" if outcome.found else ""
    facts = ", ".join(filter(None, [found, outcome.detail, outcome.reason]))
    print(f"{outcome.case.name:<20} {outcome.state:<22} {facts} ({seconds:.0f} s)", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m ground_truth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these cases")
    parser.add_argument("--results", type=Path, default=Path("results/ground-truth"), metavar="DIR")
    parser.add_argument("--again", action="store_true", help="no runs: analyse and judge the folders that are there")
    parser.add_argument("--allow-host-changes", action="store_true", help="also the cases that change the host")
    options = parser.parse_args(arguments)
    try:
        cases = choose(read_cases(), options.only)
    except ValueError as err:
        parser.error(str(err))
    before = read_host(options.results)
    outcomes = []
    for case in cases:
        start = time.monotonic()
        if options.again:
            outcome = judge_again(case, options.results)
        else:
            outcome = run_case(case, options.results, host_changes=options.allow_host_changes)
        show(outcome, time.monotonic() - start)
        outcomes.append(outcome)
    text = render(outcomes, machine=describe_machine(options.results))
    print(f"\n{text}")
    if not options.only:
        PAGE.write_text(put_between(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")
    left = find_left(before, options.results)
    for sentence in left:
        print(f"left on the host: {sentence}", file=sys.stderr)
    return 0 if all(outcome.is_good for outcome in outcomes) and not left else 1


if __name__ == "__main__":
    sys.exit(main())
