"""Run the quick files of the gallery in order, within six hours, and write the pages of docs/gallery anew.

    python -m gallery --allow-host-changes                # all of them, as root
    python -m gallery --only b1-checkpoint-timeout        # some of them
    python -m gallery --pages                             # no runs: the pages from the newest result folders

gallery.toml has the experiments. What cannot run on a machine, or what there is no time for, is named and left out.
Result folders and what pgtrial printed are in --results. Exit status 1 if an experiment failed or was ended, or if
something is left on the host.
"""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from gallery.entries import Entry, choose, read_entries
from gallery.host import find_changes, read_state
from gallery.pages import PAGES, write_index, write_page
from gallery.prospects import look_ahead
from gallery.results import answer
from gallery.runs import Outcome, State, judge_time, newest_folder, run_entry
from gallery.translated import write_translations
from pgtrial.store.findings_file import read_findings
from pgtrial.units import format_duration, parse_duration

LIMIT = "6h"
FOR_PAGES = 180.0  # s of it
TERMINATED = 143  # as a shell reports a program that SIGTERM ended


def run_or_skip(entry: Entry, results: Path, *, host_changes: bool, deadline: float) -> Outcome:
    """The outcome of an experiment that is run if it can be, and if it will be over before ``deadline``."""
    prospect = look_ahead(entry, host_changes=host_changes)
    hindrance = prospect.hindrance or judge_time(prospect.seconds, deadline - time.monotonic())
    if hindrance:
        return Outcome(entry=entry, state=State.NOT_RUN, reason=hindrance)
    print(f"{entry.name}: about {format_duration(prospect.seconds)} …", flush=True)
    return run_entry(entry, results, left=deadline - time.monotonic())


def write_pages(entries: Sequence[Entry], results: Path, folder: Path) -> None:
    """The page of every entry, with its newest result where there is one, and the index."""
    for entry in entries:
        found = newest_folder(results / entry.name)
        write_page(entry, read_findings(found) if found else None, folder)
    write_index(entries, folder)
    write_translations(entries, folder)


def show(outcome: Outcome, seconds: float) -> None:
    text = answer(read_findings(outcome.folder)) if outcome.folder else outcome.reason
    print(f"{outcome.entry.name}: {outcome.state} ({format_duration(seconds)}). {text}", flush=True)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gallery", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these experiments")
    parser.add_argument("--results", type=Path, default=Path("results/gallery"), metavar="DIR")
    parser.add_argument("--limit", default=LIMIT, metavar="TIME", help=f"end after this time; default: {LIMIT}")
    parser.add_argument("--pages", action="store_true", help="no runs: write the pages anew")
    parser.add_argument("--output", type=Path, default=PAGES, metavar="DIR", help="where the pages go")
    parser.add_argument("--allow-host-changes", action="store_true", help="also the experiments that change the host")
    options = parser.parse_args(arguments)
    entries = read_entries()
    try:
        chosen = choose(entries, options.only)
        deadline = time.monotonic() + parse_duration(options.limit) - FOR_PAGES
    except ValueError as err:
        parser.error(str(err))
    if options.pages:
        write_pages(entries, options.results, options.output)
        return 0
    signal.signal(signal.SIGTERM, _end)
    before = read_state(options.results)
    outcomes = []
    for entry in chosen:
        start = time.monotonic()
        outcome = run_or_skip(entry, options.results, host_changes=options.allow_host_changes, deadline=deadline)
        show(outcome, time.monotonic() - start)
        outcomes.append(outcome)
    write_pages(entries, options.results, options.output)
    left = find_changes(before, options.results)
    for sentence in left:
        print(f'left on the host: {sentence}; "pgtrial restore" puts back what pgtrial has changed', file=sys.stderr)
    skipped = [outcome for outcome in outcomes if outcome.state is State.NOT_RUN]
    print(f"{len(outcomes) - len(skipped)} of {len(outcomes)} experiments were run.")
    for outcome in skipped:
        print(f"not run: {outcome.entry.name}: {outcome.reason}")
    return 0 if all(outcome.is_good for outcome in outcomes) and not left else 1


if __name__ == "__main__":
    sys.exit(main())
