"""Grade graders: whoever says that one arm is faster, on machines of which the truth is known.

    python -m gym                         # all streams and contenders, forty minutes on a quiet processor
    python -m gym --quick                 # a few experiments of three streams, to see that it works; nothing is written
    python -m gym --only drift bursts     # some streams anew; the stored results of the others stay
    python -m gym --page                  # no experiments: write the page anew from the stored results
    python -m gym --record 900 --only reads writes    # record the noise of a real server anew, 900 s for each load

Results go to gym/data/results.json.gz, the page to docs/gym.md. Every seed is fixed, so the same numbers come again.
"""

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np

from gym import exceptions, recording, results
from gym.contenders import CONTENDERS
from gym.contenders.otava import Otava, find_changes, is_installed
from gym.page import write_page
from gym.results import History, Results
from gym.scores import Cell, score
from gym.streams import STREAMS, correlated

EXPERIMENTS, QUICK = 1000, 20
_QUICK_STREAMS = ("white", "failures", "recorded-writes")
_HISTORIES, _POINTS = 400, 300


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gym", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--experiments", type=int, default=EXPERIMENTS, help=f"of each cell (default: {EXPERIMENTS})")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these streams, or recordings, anew")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} experiments of three streams")
    parser.add_argument("--page", action="store_true", help="no experiments: only write the page")
    parser.add_argument("--record", type=float, metavar="SECONDS", help="record the noise of a real server anew")
    options = parser.parse_args(arguments)
    names = [stream.name for stream in STREAMS] if options.record is None else [*recording.LOADS]
    if unknown := sorted(set(options.only) - set(names)):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(names)}")
    if options.record is not None:
        for made in recording.record(options.record, options.only or names):
            print(recording.write(made))
        return 0
    if not options.page:
        wanted = options.only or (_QUICK_STREAMS if options.quick else names)
        found = run(wanted, QUICK if options.quick else options.experiments)
        if options.quick:
            return 0
        results.write(results.merge(results.read(), found) if options.only else found)
    print(write_page(results.read()))
    print(exceptions.write_page(results.read()))
    return 0


def run(streams: Sequence[str], experiments: int) -> Results:
    """Every contender on these streams; whoever is not installed is left out, and said."""
    contenders = [one for one in CONTENDERS if not isinstance(one, Otava) or is_installed()]
    cells = list[Cell]()
    for stream in (one for one in STREAMS if one.name in streams):
        for contender in contenders:
            begun = time.monotonic()
            found = list(score(stream, contender, experiments))
            said = (
                sum(cell.alarms for cell in found if cell.effect == 0),
                sum(cell.experiments for cell in found if cell.effect == 0),
            )
            cells += found
            print(
                f"{stream.name:<16} {contender.name:<32} {said[0]:>5} false alarms of {said[1]:<6} "
                f"({time.monotonic() - begun:.0f} s)",
                flush=True,
            )
    if not is_installed():
        print("not run: Apache Otava is not installed; make gym does that", file=sys.stderr)
        return Results(cells=tuple(cells))
    return Results(cells=tuple(cells), histories=tuple(find_false_changes(phi, experiments) for phi in (0.0, 0.6)))


def find_false_changes(phi: float, experiments: int) -> History:
    """How often Otava's defaults find a point of change in a history that has none."""
    series = min(experiments, _HISTORIES)
    histories = 100 * np.exp(0.03 * correlated(phi, series, _POINTS, np.random.default_rng(1)))
    changes = find_changes(histories.tolist())
    return History(phi=phi, points=_POINTS, series=series, alarms=sum(bool(found) for found in changes))


if __name__ == "__main__":
    sys.exit(main())
