"""docs/exceptions.md: everything of which it is known that a verdict about it is false more often than allowed.

The gym's figures come from its stored results, the calibration's from tests/calibration/rows/; those of simulations
that docs/statistics.md tells of are repeated here. A test holds the list against both, so that none is left out.

    python -m gym.exceptions
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ground_truth.page import put_between, table

from gym import results, tables
from gym.results import Results
from gym.scores import Falsehood

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "exceptions.md"
ROWS = ROOT / "tests" / "calibration" / "rows"
BEGIN = "<!-- begin: written by python -m gym.exceptions -->"
END = "<!-- end: written by python -m gym.exceptions -->"
Exceptional = tuple[str, str, Falsehood, int]  # as of tables.exceptions
_METHODS = {"blocks": "runs one after the other", "interleaved": "turns", "duet": "duet"}
_STOPPING = ", stopping"
BOTH = ("", _STOPPING)
_HEAD = (
    *("", "What happens", "False verdicts, or intervals without the truth", "Why it is not prevented"),
    *("What pgtrial says", "What helps"),
)
_WORST = (
    "## Each stream and method of the gym\n\nThe worst cell of each, as in [the gym](gym.md#verdicts-of-pgtrial), and "
    "the line above that says why."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What makes verdicts false too often: the gym's ``streams`` and ``methods`` and the ``lines`` of the calibration
    that show it, and ``others``, figures of docs/statistics.md. ``why`` no method can prevent it that has these data
    alone, or what it would cost; ``says`` is what a user learns of it, ``helps`` what there is to do.
    """

    what: str
    streams: Sequence[str] = ()
    methods: Sequence[str] = ()
    lines: Sequence[int] = ()
    others: str = ""
    why: str
    says: str
    helps: str

    @property
    def pairs(self) -> set[tuple[str, str]]:
        """The gym's, as its results name them."""
        return {(stream, f"{tables.PGTRIAL} {method}") for stream in self.streams for method in self.methods}


def _with_stopping(*methods: str) -> tuple[str, ...]:
    return tuple(f"{method}{stops}" for method in methods for stops in BOTH)


CAUSES = (
    Cause(
        what="Both arms are at work at the same time, and what one leaves for the machine to do slows both",
        streams=("debt-short", "debt-long", "debt-slow", "debt-late", "debt-next"),
        methods=_with_stopping("duet"),
        why="it cannot be: what slows both arms at the same moment is in no ratio of the two, so the data are those "
        "of an arm that leaves nothing",
        says="`shared-device` where the arms share a disk that they wait for; `left-behind` where the ratio changes "
        "inside the slices, and then the verdict is invalid where that may be all of the effect",
        helps='`method = "blocks"` or turns: a duet is for loads that need nothing but processors',
    ),
    Cause(
        what="What an arm leaves behind comes and goes more slowly than turns change, so it lies on both arms alike",
        streams=("debt-slow",),
        methods=_with_stopping("interleaved"),
        others="[time constants](statistics.md#what-comes-later) of 2, 4 and 8 slices: 40, 79 and 90 % of the "
        "intervals are without the truth (12 blocks of runs of 8 s), 12, 63 and 87 % of runs of 30 s; work that is "
        "paid by a clock of its own: 10 of 40 experiments by rules 5; one that fades "
        "[within two washouts](statistics.md#what-an-arm-leaves-behind): 27 to 29 %; "
        "[switched servers](statistics.md#one-server-switched-back-and-forth): of an effect that takes 15 s to come, "
        "a fifth is missing",
        why="it cannot be by turns of one length: what outlasts them lies on the turns of both arms alike, so their "
        "difference is that of an arm that leaves nothing; slices of a second length show it only where it "
        "changes between the two",
        says="`effect-grows-with-slices` where slices of two lengths do not agree, and the verdict is invalid where "
        "they contradict each other; `comes-late` and `left-behind` where it is seen",
        helps='`method = "blocks"`; a longer `slice` (5 s and more is usual for settings that are known for it)',
    ),
    Cause(
        what="What an arm leaves behind fades as slowly as the washout is long, and somebody looks after each block",
        streams=("debt-long",),
        methods=("interleaved, stopping",),
        why="it could be, by an interval that bears the most that is possible at every look instead of an estimate, "
        "which makes all of them wider; of one look, at the end, it holds",
        says="`left-behind` where it is seen; the interval bears an estimate of it, which has an error of its own",
        helps="a longer `slice`",
    ),
    Cause(
        what="What an arm leaves for the turns of others is felt by few transactions, and a percentile is claimed",
        others="[1.5 % of them are slow one slice late](statistics.md#latencies-of-slices) (p99 +50 %, mean +2.3 %): "
        "“not worse” 77 %, “better” 28 %",
        why="it could be, by histograms of parts of slices, which are not stored: of percentiles slices tell by the "
        "mean, which a tail moves little. What they would see was not measured: beyond a p99 a part of a slice has few "
        "transactions",
        says="nothing: the interval bears what the mean latency shows",
        helps='`method = "blocks"` for claims about p95 and beyond',
    ),
    Cause(
        what="Runs end before what the arm did is paid for",
        streams=("debt-slow",),
        methods=_with_stopping("blocks"),
        why="it cannot be: what is paid for after the last second of a run, and taken away with the data that are "
        "restored, is in no reading",
        says="`left-for-next-run` where it is seen",
        helps="longer runs, or a longer warm-up",
    ),
    Cause(
        what="There are too few blocks to tell what a run leaves for the next one, where runs follow one another",
        streams=("debt-next",),
        methods=_with_stopping("blocks"),
        lines=(16,),
        others="with more arms: −3 %, 2 points of it: 12 and 2 % (3 arms; 6 and 12 blocks), 11 and 1 % (a placebo); "
        "−3 %, 1 point of it, SD 2 %: 6, 8, 20 and 23 % (3 arms; 6, 12, 24, 40 blocks), 9, 16, 22 and 16 % (a "
        "placebo); of a debt of 8 % beside a third arm that scatters ten times as much 15 % (6 and 12 blocks), five "
        "times 3 and 0 %; of several experiments [combined](statistics.md#what-a-run-leaves-for-the-next-one) the "
        "interval lies wholly above the truth in 20 to 27 % (eight of 6 blocks), 17 % (eight of 12) and 10 % (24 of "
        "12)",
        why="it cannot be: what few blocks do not tell from their noise, at 6 blocks a debt of 5 SD of a "
        "run at times, is told from none only by more runs, "
        "and one that is always taken for possible leaves few verdicts to experiments without it. "
        "Of experiments that are combined it could be in part, by a debt that is estimated over all of them: 3 and "
        "20 %, 11 % and 8 %, for up to 17 in 100 decisions where nothing is left",
        says="`left-for-next-run` where it is seen; “inconclusive” then asks for more blocks or a longer warm-up",
        helps="a longer warm-up, a pause in a hook before each run, or more blocks",
    ),
    Cause(
        what="An arm stalls at times, and makes up for it otherwise: what has not happened is in no interval",
        streams=("stalls", "stalls-rare"),
        methods=_with_stopping("blocks", "interleaved", "duet"),
        others="[slowed by little mostly, and by much at times](statistics.md#effect-and-interval): 5 to 14 %; of an "
        "arm of which one run in ten stalls 53 % of six blocks and 26 % of twelve, and none where one of them did; "
        "[what was tried](statistics.md#skewed-ratios)",
        why="it cannot be: of runs that did not stall the data are those of an arm that never does (one run in ten: "
        "53 % of six blocks, 28 % of twelve), and no interval for a mean holds for every distribution with such a "
        "tail unless it is of no use (Bahadur & Savage, Ann. Math. Statist. 27 (1956) 1115–1122)",
        says="`methods-disagree` where a stall is among the blocks and turns the result; the report draws every block",
        helps="runs so long that each has several stalls, then more blocks",
    ),
    Cause(
        what="Few attempts of an arm die, hardly more than by chance, where it is slow or of something that no good "
        "run has",
        lines=(4,),
        why="in part: where no attempt died, which is 8.8 % of six blocks and 0.8 % of twelve, the data are those of "
        "an arm that never does. The rest could be, with no verdict as soon as one attempt more of either arm fails, "
        "which takes it from 20 and 35 % of the experiments of 6 and 12 blocks in which 2 % of all attempts of both "
        "arms fail by chance; two beside none take it from 1 and 4 %",
        says="`unequal-failures`, and the attempts that failed by arm; no verdict where chance does as much in less "
        "than 20 %, or where two attempts of one arm died and none of the other (rules 14; by rules 13 42.7 and "
        "10.2 % of them were false)",
        helps="to find out why they fail",
    ),
    Cause(
        what="Both arms lose as many transactions, the one by chance and the other its slowest, and a latency is "
        "claimed",
        others="[2 % of each lost](statistics.md#transactions-that-were-lost), b 10 % slower in every quantile: “p99 "
        "better” 40 of 40; 0.5 %: “not worse” 25 of 40, and “better” of equal arms 33 of 40",
        why="it could be, with intervals that bear each arm's own loss instead of the difference: by 3 and 17 % of a "
        "p99 on both sides for 0.1 and 0.5 % lost, which leaves few verdicts to arms that fail alike",
        says="`failed-transactions` or `skipped-transactions` for each arm, with its share",
        helps="to find out why they fail, and to retry them: one that is retried has the time of all its tries",
    ),
    Cause(
        what="Of few transactions hardly more are lost than by chance, each after a long wait, and a mean is claimed",
        others="[0.03 % more, after 1 s each](statistics.md#transactions-that-were-lost), mean of 10 ms: “not worse” "
        "27 % (12 000 transactions of each arm), 80 % (3 000), none (360 000)",
        why="it could be, with no verdict for an arm that loses one transaction more, which takes it from about half "
        "of the experiments in which both arms fail by chance; the test takes it from 14 to 18 %",
        says="`failed-transactions` from 0.1 % on",
        helps="longer runs; `max_tries`, with which transactions have the time of all their tries",
    ),
    Cause(
        what="Somebody stops pgtrial while a run looks bad for what he wants, and resumes",
        others="[at most 4.5 %](statistics.md#interruptions) (70 cases of 4 000 experiments), and line 14 there",
        why="it could be, with no verdict after any interruption, so that one restart of the machine costs the whole "
        "experiment",
        says="`interrupted-runs`, and the verdict has to hold with what these runs may hide; `torn-blocks`",
        helps="not to interrupt; more blocks",
    ),
    Cause(
        what="An arm is restless only as the second of a block",
        lines=(20,),
        others="[five times the scatter](statistics.md#effect-and-interval): 10.2 % (6 blocks), 7.5 % (8); 25 times: "
        "6.2 % (6); none from 12 blocks on (12 000 experiments)",
        why="it could be, by the interval for variances of which nothing is known (Mickey & Brown, Ann. Math. "
        "Statist. 37 (1966) 639–642): 1.55, 1.30 and 1.15 times as wide with 6, 8 and 12 blocks, of all "
        "experiments",
        says="nothing where few blocks do not show it; where it is seen the interval is wider",
        helps="12 blocks",
    ),
    Cause(
        what="The machine comes and goes with a period of a few runs, where runs follow one another",
        streams=("drift",),
        methods=("blocks",),
        others="[a wave of ±10 % over 3.7 blocks](statistics.md#arms-that-take-turns-arms-at-the-same-time): 8.3 % "
        "(6 blocks), 7.3 % (12) of 2 400; [one of five to six runs](statistics.md#effect-and-interval) in little other "
        "noise: 8 to 10 %, 5 to 8 %; a neighbour for 3 s in every three runs: 9.8 %, 7.4 %",
        why="with six blocks it cannot be: only the draw of the order holds against any wave, and there are 42 orders "
        "of two arms, so that the most extreme result and its mirror have 4.8 % already; of more blocks it could "
        "be, at a width that was not measured",
        says="nothing: it looks like noise",
        helps="turns, which it does not touch, or runs of another length",
    ),
    Cause(
        what="The effect itself wanders from block to block, because something is carried over that no run begins anew",
        lines=(22,),
        others="[what was tried](statistics.md#order-of-the-blocks-drift-and-autocorrelation)",
        why="it cannot be with few blocks: ten of them do not tell 0.4 from none, and an interval for the worst is "
        "twice as wide for all",
        says="`data-not-restored` of each experiment in which that can be; `autocorrelated-blocks` where it is seen, "
        "which is rare with ten blocks",
        helps='`restore = "each-run"`, which is usual',
    ),
    Cause(
        what="A requirement is asked of an arm on a machine that wanders from run to run",
        others="[AR(1) of runs](statistics.md#enough) with 0.5, 0.8, 0.95, at the limit: met in 4.8, 14.2, 28.2 % "
        "(6 blocks), 5.5, 16.5, 32.5 % (12), 6.2, 16.5, 34.0 % (40), and not met in as many",
        why="with six blocks it cannot be: nothing cancels, and six values do not tell how they depend on each other. "
        "Of ten and more it could be in part, by the interval of a series: 4.1 and 11.3 % with 12 blocks for 0.8 and "
        "0.95, and 1.77 times as wide on machines that do not wander, so that 12 blocks would decide less than 9",
        says="nothing: it looks like noise",
        helps="a limit with room to spare; the experiment again at other times",
    ),
    Cause(
        what="A requirement “at most” is asked of what is zero in most runs, and much in the others",
        others="[nonzero in 10, 25 and 40 % of the runs](statistics.md#enough), sizes exponential, the mean at the "
        "limit: met in 52, 25 and 9 % (6 blocks), 36, 19 and 9 % (12), 17, 11 and 7 % (40); 0.3 failures a run on "
        "average: 15, 9 and 9 %",
        why="where all runs are zero it cannot be (six blocks: 53, 18 and 5 %). Beyond that in part: with the t "
        "interval of the mean in place of the mean, which is told too short of such values, 52, 25 and 9 %, 34, 15 and "
        "8 %, 15, 6 and 4 %",
        says="the median, with its interval, which is what holds; the report draws every run",
        helps="longer runs, so that none is zero",
    ),
    Cause(
        what="Somebody takes a provisional verdict for one, and where there was none the last",
        others="[5.9 to 6.3 %](statistics.md#stopping-at-a-decision) misled, instead of 5 %",
        why="nobody can be kept from it: each provisional verdict holds by itself whenever one looks, and the last "
        "one by itself; who takes either has two chances",
        says="“provisional”, in every output",
        helps="to wait for the rule, or for the last block",
    ),
    Cause(
        what="Somebody tries one claim again until it is decided: the attempts after the first, however many, may err "
        "as often as the first alone",
        lines=(13,),
        why="it is what is promised: the attempts after the first share what the first may err, since without a share "
        "of their own none could ever decide",
        says="`another-attempt`, with the share that this one has of what they may err",
        helps="one experiment with more blocks and a rule for stopping",
    ),
    Cause(
        what='`stop = "precision"` at a confidence above 99 % for each arm',
        others="[1.1 times](statistics.md#stopping-at-a-precision) the nominal rate",
        why="it could be, by a wider interval: none was looked for, as such confidences have other needs",
        says="nothing",
        helps="to have it end at a decision, or not at all",
    ),
    Cause(
        what="Transactions take most of the measured time",
        others="[an effect is told too small](statistics.md#what-a-throughput-counts) by less than a tenth of it",
        why="it cannot be from the counts alone: how much faster a transaction becomes while fewer run beside it is "
        "not in them",
        says="nothing",
        helps="a longer `duration`",
    ),
)


def told_by_calibration() -> dict[int, str]:
    """What is beyond its nominal rate by more than chance, by the line of the table in docs/statistics.md."""
    rows = {int(path.stem): tomllib.loads(path.read_text(encoding="utf-8")) for path in ROWS.glob("[0-9]*.toml")}
    return {number: row["beyond"] for number, row in sorted(rows.items()) if "beyond" in row}


def render(found: Results) -> str:
    """All that is between the marks."""
    exceptions = tables.exceptions(found)
    lines = [
        f"- {stream}, {method}: {tables.describe(worst)}, false “{worst.kind}”; {count} cells in all: "
        f"{_number((stream, method))}."
        for stream, method, worst, count in exceptions
    ]
    calibration = told_by_calibration()
    rows = [
        [str(number), cause.what, _figures(cause, exceptions, calibration), cause.why, cause.says, cause.helps]
        for number, cause in enumerate(CAUSES, start=1)
    ]
    return "\n\n".join([table(_HEAD, rows), _WORST, "\n".join(lines)])


def _number(pair: tuple[str, str]) -> str:
    return " and ".join(f"line {number}" for number, cause in enumerate(CAUSES, start=1) if pair in cause.pairs)


def _figures(cause: Cause, exceptions: Sequence[Exceptional], calibration: dict[int, str]) -> str:
    parts = []
    if cause.streams:
        parts.append(f"gym, {', '.join(f'*{stream}*' for stream in cause.streams)}: {_range(cause, exceptions)}")
    parts += [f"[line {line}](statistics.md#what-an-audit-found): {calibration[line]}" for line in cause.lines]
    return "; ".join([*parts, *([cause.others] if cause.others else [])])


def _range(cause: Cause, exceptions: Sequence[Exceptional]) -> str:
    """Of the worst cells of each method, over the streams and with and without stopping."""
    rates: dict[str, list[float]] = {}
    for stream, method, worst, _ in exceptions:
        if (stream, method) in cause.pairs:
            plain = method.removeprefix(f"{tables.PGTRIAL} ").removesuffix(_STOPPING)
            rates.setdefault(plain, []).append(100 * worst.count / worst.cell.experiments)
    return ", ".join(
        f"{_METHODS[method]} {min(each):.1f}" + (f" to {max(each):.1f} %" if max(each) > min(each) else " %")
        for method, each in rates.items()
    )


def write_page(found: Results, page: Path = PAGE) -> Path:
    """Put the list between its marks; returns the page's path."""
    page.write_text(put_between(page.read_text(encoding="utf-8"), render(found), BEGIN, END), encoding="utf-8")
    return page


if __name__ == "__main__":
    print(write_page(results.read()))
