"""Run the experiments whose cause is known, and see whether the analysis names it.

    python -m ground_truth --allow-host-changes           # all of them, about 45 minutes on 2 CPUs, as root
    python -m ground_truth --only row-locks wal-flush     # some; the page is left as it is
    python -m ground_truth --again                        # analyse the folders of the last runs anew, and judge them

Each case is an experiment file in ground_truth/experiments; cases.toml has the truth. Result folders and what pgtrial
printed are in --results. The tables are written to docs/ground-truth.md. Exit status 1 if a cause is not named right,
was not there, parts of the latency do not add up, pgtrial failed, or something is left on the host.

Runs that take hours, on a quiet machine; each command goes on where it was left, as far as --limit allows:

    python -m ground_truth --limits --limit 100min --allow-host-changes    # these cases, proved by pgtrial limits
    python -m ground_truth --unseen --limit 100min --allow-host-changes    # new cases, each once: by rules, and proved
    python -m ground_truth --predict --limit 100min --allow-host-changes   # changes that the ledgers have predicted
    python -m ground_truth --page                                          # no runs: the tables of what is kept

What came out of each is kept in ground_truth/kept, and its tables are in docs/ground-truth.md. Exit status 75 if there
was no time for all of them, 1 if something is left on the host.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from ground_truth.by_rules import judge_again, run_case
from ground_truth.cases import UNSEEN, Case, choose, read_cases
from ground_truth.kept_runs import (
    Task,
    control_tasks,
    prediction_tasks,
    proof_tasks,
    run_within,
    unseen_tasks,
    unspoken,
)
from ground_truth.left_overs import find_left, read_host
from ground_truth.page import PAGE, put_between, render
from ground_truth.predictions import choose_predictions, read_predictions
from ground_truth.proof_page import publish
from ground_truth.runs import describe_machine
from ground_truth.scoring import Outcome
from pgtrial.units import parse_duration

_TERMINATED = 143  # as a shell reports a program that SIGTERM ended
_NOT_ALL = 75  # EX_TEMPFAIL: try again


def describe(results: Path) -> str:
    """A sentence on where and with which server the cases ran."""
    versions = set()
    for path in results.glob("*/*/findings.json"):
        versions.add(json.loads(path.read_text(encoding="utf-8"))["experiment"]["target"].get("postgres version", ""))
    return f"PostgreSQL {' and '.join(sorted(versions - {''})) or 'unknown'} on {describe_machine()}."


def show(outcome: Outcome, seconds: float) -> None:
    found = f"found {outcome.found}" if outcome.found else ""
    facts = ", ".join(filter(None, [found, outcome.detail, outcome.reason]))
    print(f"{outcome.case.name:<20} {outcome.state:<22} {facts} ({seconds:.0f} s)", flush=True)


def find_tasks(options: argparse.Namespace) -> tuple[Task, ...]:
    """What is left of a long run. Raises ValueError for names that do not exist."""
    seen, unseen = read_cases(), read_cases(UNSEEN)
    predictions = read_predictions([*seen, *unseen])
    permitted = {"host_changes": options.allow_host_changes, "again": bool(options.only)}
    if options.limits or options.unseen:
        chosen_cases = choose(seen if options.limits else unseen, options.only)
        find = proof_tasks if options.limits else unseen_tasks
        return (
            *find(chosen_cases, predictions, options.results, **permitted),
            *control_tasks(chosen_cases, options.results, **permitted),
        )
    chosen = choose_predictions(predictions, options.only)
    cases = {case.name: case for case in (*seen, *unseen)}
    for name in unspoken(chosen, cases):
        print(f"{name} has no ledger yet that could predict: --limits and --unseen make them", flush=True)
    return prediction_tasks(chosen, cases, options.results, **permitted)


def run_long(tasks: Sequence[Task], results: Path, *, limit: float) -> int:
    """Run what there is time for, and publish what is kept; the exit status."""
    signal.signal(signal.SIGTERM, _end)
    before = read_host(results)
    try:
        remaining = run_within(tasks, limit=limit)
    finally:
        publish()
        left = tell_left(before, results)
    if remaining:
        print(f"{remaining} of {len(tasks)} are left; the same command goes on")
    return 1 if left else _NOT_ALL if remaining else 0


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(_TERMINATED)


def tell_left(before: Mapping[str, str], results: Path) -> bool:
    """Whether something is left on the host; what it is goes to standard error."""
    left = find_left(before, results)
    for sentence in left:
        print(f"left on the host: {sentence}", file=sys.stderr)
    return bool(left)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m ground_truth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these cases, or predictions")
    parser.add_argument("--results", type=Path, default=Path("results/ground-truth"), metavar="DIR")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--again", action="store_true", help="no runs: analyse and judge the folders that are there")
    what.add_argument("--limits", action="store_true", help="prove by pgtrial limits what limits each case")
    what.add_argument("--unseen", action="store_true", help="the cases on which no rule was developed, each once")
    what.add_argument("--predict", action="store_true", help="measure the changes that ledgers have predicted")
    what.add_argument("--page", action="store_true", help="no runs: write the tables of what is kept")
    parser.add_argument(
        "--limit", default="12h", metavar="TIME", help="begin none that is not likely to be over then; default: 12h"
    )
    parser.add_argument("--allow-host-changes", action="store_true", help="also the cases that change the host")
    options = parser.parse_args(arguments)
    try:
        if options.limits or options.unseen or options.predict:
            tasks, limit = find_tasks(options), parse_duration(options.limit)
            return run_long(tasks, options.results, limit=limit)
        cases = choose(read_cases(), options.only)
    except ValueError as err:
        parser.error(str(err))
    if options.page:
        publish()
        return 0
    return run_cases(cases, options)


def run_cases(cases: Sequence[Case], options: argparse.Namespace) -> int:
    """Run and judge each by the rules, and publish; the exit status."""
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
    text = render(outcomes, machine=describe(options.results))
    print(f"\n{text}")
    if not options.only:
        PAGE.write_text(put_between(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")
    left = tell_left(before, options.results)
    return 0 if all(outcome.is_good for outcome in outcomes) and not left else 1


if __name__ == "__main__":
    sys.exit(main())
