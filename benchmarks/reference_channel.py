"""Whether a reference channel pays: fixed pieces of work beside a load, whose times tell how fast the machine is.

record: one throw-away server, pgbench's simple-update with 8 clients, nothing varied, and the probe beside it
(reference_channel.c, which says what it does).

score: cuts recordings, resampled, into experiments as the product plans them, in which nothing differs, and compares
the product's interval with one whose block differences are rid of what the probe predicts. The slope is that of slices
inside runs, the block that is judged left out.

    PYTHONPATH=src:tests:. python benchmarks/reference_channel.py record FOLDER/calm.npz [--minutes 15]
    PYTHONPATH=src:tests:. python benchmarks/reference_channel.py score FOLDER/calm.npz [MORE ...] [--experiments 1000]
"""

import argparse
import asyncio
import platform
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from gym.contenders.pgtrial import compare
from numpy.typing import NDArray

from pgtrial.analysis.effects.adjustment import adjust_for
from pgtrial.design.methods import MethodChoice, plan_steps, turn_seed
from pgtrial.design.plan import plan_schedule
from pgtrial.design.slices import WASHOUT
from pgtrial.hosts.processes import end_process, find_server_children
from pgtrial.model.arm import Arm, Role
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import make_own
from pgtrial.stats.base import Comparison
from pgtrial.stats.equivalence import equivalence_p
from pgtrial.store.parquet import connect
from support.cluster import running_cluster

Floats = NDArray[np.float64]

SOURCE = Path(__file__).with_suffix(".c")
CHANNELS = ("late", "arithmetic", "arithmetic-cpu", "walk", "walk-cpu", "read", "write", "steal", "others")
TICK = 0.25  # s
CLIENTS, SCALE = 8, 20
LEAD = 45.0  # s of load before what is kept: pages are written whole for the first time
# Neither a checkpoint nor vacuuming: a run of an experiment begins with a checkpoint, on data made afresh.
SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
}
DATABASE = "postgres"
STRETCH = 120.0  # s of a recording that stay together, on average
PAUSE = 7.0  # s before a run, or a block of turns, in which servers start and warm up
EARLIER = 5.0  # s of them that may tell how fast the machine is, before there is any arm
BLOCKS = (6, 12, 20)
WALK = CHANNELS.index("walk")
ARMS = (Arm(name="plain", role=Role.CONTROL), Arm(name="changed", role=Role.CANDIDATE))


def planned_orders(blocks: int, seed: int) -> NDArray[np.bool_]:
    """Of each block, whether the arm comes after the control, as the product draws it: (blocks,)."""
    slots = plan_schedule(ARMS, blocks=blocks, seed=seed)
    return np.array([slot.position == 2 for slot in slots if slot.arm == ARMS[1].name])


async def record(destination: Path, minutes: float) -> None:
    """Write one recording: of each tick the transactions that ended in it, of each time the probe's readings."""
    with tempfile.TemporaryDirectory(prefix="pgtrial-reference-") as place:
        program = Path(place) / "reference_channel"
        subprocess.run(["cc", "-O2", "-o", program, SOURCE], check=True)
        async with running_cluster("reference", SETTINGS) as cluster:
            await cluster.host.run(
                [cluster.programs.path("pgbench"), "--initialize", "--quiet", f"--scale={SCALE}"],
                account=cluster.account,
                environment=cluster.environment(DATABASE),
                directory=cluster.directory,
            )
            await _beside_load(cluster, program, destination, 60 * minutes)


async def _beside_load(cluster: ThrowawayCluster, program: Path, destination: Path, seconds: float) -> None:
    make_own(cluster.host, place := cluster.directory / "load", cluster.account)
    load = await cluster.host.start(
        [
            cluster.programs.path("pgbench"),
            *(
                "--no-vacuum",
                "--protocol=prepared",
                "--builtin=simple-update",
                "--log",
                f"--log-prefix={place / 'log'}",
            ),
            *(f"--client={CLIENTS}", "--jobs=1", f"--time={LEAD + seconds + 10:.0f}"),
        ],
        role="load",
        account=cluster.account,
        environment=cluster.environment(DATABASE),
        directory=cluster.directory,
    )
    try:
        await asyncio.sleep(LEAD)
        pids = [load.pid, *(child.pid for child in find_server_children(str(cluster.data)))]
        with ExitStack() as stack:
            output = stack.enter_context(tempfile.TemporaryFile("w+"))
            file = cluster.directory / "probe"
            words = [str(program), "probe", str(file), str(seconds), *map(str, pids)]
            probe = stack.enter_context(subprocess.Popen(words, stdout=output, start_new_session=True))
            stack.callback(probe.kill)
            status = await asyncio.to_thread(probe.wait)
            output.seek(0)
            lines = output.read().splitlines()
        if status != 0 or await load.wait() != 0:
            raise RuntimeError("the probe or the load has failed")
    finally:
        await end_process(load, patience=10)
    readings = np.array([line.split() for line in lines[:-1]], dtype=np.float64)
    first, last = np.ceil(readings[0, 0] / TICK), np.floor(readings[-1, 0] / TICK)
    counts = _count(sorted(place.glob("log.[0-9]*")), int(first), int(last))
    cost = float(lines[-1].split()[1]) / (readings[-1, 0] - readings[0, 0])
    np.savez_compressed(
        destination,
        begin=first * TICK,
        counts=counts,
        readings=readings,
        cost=cost,
        made=f"PostgreSQL {cluster.programs.version}, Linux {platform.release()}, {time.strftime('%F %T')}",
    )
    print(f"{destination}: {counts.sum() / counts.size / TICK:.0f} tps, the probe used {100 * cost:.2f} % of a CPU")


def _count(logs: list[Path], first: int, last: int) -> NDArray[np.int64]:
    """Transactions that ended in each tick from ``first`` to before ``last``."""
    with connect() as db:
        rows = db.execute(
            """
            SELECT floor((epoch + us / 1e6) / $tick)::BIGINT AS tick, count(*)
            FROM read_csv($logs, delim = ' ', header = false, columns = {
                'client': 'INT', 'number': 'BIGINT', 'time': 'BIGINT', 'script': 'INT',
                'epoch': 'BIGINT', 'us': 'BIGINT'
            })
            GROUP BY tick
            """,
            {"tick": TICK, "logs": [str(path) for path in logs]},
        ).fetchall()
    found = dict(rows)
    return np.array([found.get(tick, 0) for tick in range(first, last)], dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """``counts`` (ticks,): transactions; ``sums`` (channels, ticks): of the channels' readings, of which there are
    ``readings`` (channels, ticks). Times are logs of seconds, the last two shares of a CPU.
    """

    counts: Floats
    sums: Floats
    readings: Floats


def read_recording(path: Path) -> Recorded:
    """What ``record`` has written."""
    with np.load(path) as found:
        print(f"{path.name}: {found['made']}; the probe used {100 * float(found['cost']):.2f} % of a CPU")
        counts, begin, lines = (found[name] for name in ("counts", "begin", "readings"))
    ticks, edges = counts.size, begin + TICK * np.arange(counts.size + 1)
    place = np.floor((lines[:, 0] - begin) / TICK).astype(int)
    inside = (place >= 0) & (place < ticks)
    logs = np.log(np.maximum(lines[:, 1:8].T, 1e-6))
    sums = [np.bincount(place[inside], weights=one[inside], minlength=ticks) for one in logs]
    sums += [np.diff(np.interp(edges, lines[:, 0], one)) / TICK for one in lines[:, 8:].T]
    times = np.bincount(place[inside], minlength=ticks)
    readings = np.vstack([np.tile(times, (7, 1)), np.ones((2, ticks))])
    return Recorded(counts=counts.astype(float), sums=np.array(sums), readings=readings.astype(float))


def resample(recorded: Recorded, ticks: int, rng: np.random.Generator) -> Recorded:
    """So many ticks of it, from random places on: Politis & Romano, J. Am. Stat. Assoc. 89 (1994) 1303-1313."""
    jumps = rng.random(ticks) < TICK / STRETCH
    jumps[0] = True
    since = np.maximum.accumulate(np.where(jumps, np.arange(ticks), 0))
    begins = rng.integers(0, recorded.counts.size, ticks)
    place = (begins[since] + np.arange(ticks) - since) % recorded.counts.size
    return Recorded(counts=recorded.counts[place], sums=recorded.sums[:, place], readings=recorded.readings[:, place])


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """``log_ratios`` (n,) of an experiment's blocks, ``shifts`` (n, channels): the probe's means in the arm less those
    in the control. ``squares`` (n, channels, channels) and ``products`` (n, channels): of what slices differ by from
    the mean of their run and arm, the channels with each other and with the throughput. ``before`` (n, channels): as
    ``shifts``, of the time before the runs.
    """

    log_ratios: Floats
    shifts: Floats
    squares: Floats
    products: Floats
    before: Floats


def cut(recorded: Recorded, slices: Sequence[tuple[int, int, float, float]], blocks: int) -> Blocks:
    """Blocks of slices (block, arm, begin, end), the times in ticks."""
    block, arm, begin, end = (np.array(column) for column in zip(*slices, strict=True))
    group = 2 * block + arm
    in_group = (np.arange(2 * blocks)[:, None] == group).astype(float)
    rate = _between(recorded.counts, begin, end) / (end - begin)
    sums, readings = _between(recorded.sums, begin, end), _between(recorded.readings, begin, end)
    rates = (in_group @ (rate * (end - begin))) / (in_group @ (end - begin))
    means = (sums @ in_group.T) / np.maximum(readings @ in_group.T, 1e-9)
    is_read = readings.min(axis=0) > 0
    number = np.maximum(in_group @ is_read, 1)
    x = np.where(is_read, sums / np.maximum(readings, 1e-9) - means[:, group], 0.0)
    y = np.where(is_read, rate / rates[group] - 1, 0.0)
    x -= np.where(is_read, ((x @ in_group.T) / number)[:, group], 0.0)
    y -= np.where(is_read, ((in_group @ y) / number)[group], 0.0)
    in_block = in_group[0::2] + in_group[1::2]
    firsts = np.array([begin[group == each].min() for each in range(2 * blocks)])
    early = [_between(values, firsts - EARLIER / TICK, firsts) for values in (recorded.sums, recorded.readings)]
    before = early[0] / np.maximum(early[1], 1e-9)
    return Blocks(
        log_ratios=np.log(rates[1::2] / rates[0::2]),
        shifts=(means[:, 1::2] - means[:, 0::2]).T,
        squares=np.einsum("ns,is,js->nij", in_block, x, x, optimize=True),
        products=np.einsum("ns,is,s->ni", in_block, x, y, optimize=True),
        before=(before[:, 1::2] - before[:, 0::2]).T,
    )


def _between(values: Floats, begin: Floats | float, end: Floats | float) -> Floats:
    """Sums between two times in ticks, of which a part of a tick has that part."""
    total = np.concatenate([np.zeros((*values.shape[:-1], 1)), np.cumsum(values, axis=-1)], axis=-1)

    def until(at: Floats | float) -> Floats:
        at = np.clip(at, 0, values.shape[-1])
        whole = np.minimum(np.floor(at).astype(int), values.shape[-1] - 1)
        return np.asarray(total[..., whole] + values[..., whole] * (at - whole))

    return until(end) - until(begin)


def predicted(blocks: Blocks, channels: Sequence[int]) -> Floats:
    """What the shifts of the probe predict of each block's log ratio, by the slope in all other blocks: (n,)."""
    chosen = np.ix_(range(len(blocks.shifts)), channels, channels)
    squares, products = blocks.squares[chosen], blocks.products[:, channels]
    squares, products = squares.sum(axis=0) - squares, products.sum(axis=0) - products
    ridge = 1e-6 * np.einsum("nii->n", squares)[:, None, None] * np.eye(len(channels)) + 1e-12 * np.eye(len(channels))
    slopes = np.linalg.solve(squares + ridge, products[..., None])[..., 0]
    return np.asarray((slopes * blocks.shifts[:, channels]).sum(axis=1))


def first_of(blocks: Blocks, count: int) -> Blocks:
    return Blocks(
        **{name: getattr(blocks, name)[:count] for name in ("log_ratios", "shifts", "squares", "products", "before")}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Runs of so many seconds, told in slices for the slope; or, with ``turn``, slices of arms that take turns."""

    run: float
    slice: float
    turn: bool = False

    @property
    def text(self) -> str:
        return f"{'turns' if self.turn else 'blocks'} of {self.run:g} s, slices of {self.slice:g} s"

    def slices(self, seed: int, blocks: int) -> tuple[list[tuple[int, int, float, float]], NDArray[np.bool_], int]:
        """Slices as ``cut`` takes them, of each block whether the arm came second, and the ticks of all."""
        after = planned_orders(blocks, seed)
        found, now = [], 0.0
        for block in range(blocks):
            if self.turn:
                now += PAUSE
                choice = MethodChoice(
                    method="interleaved", reason="", guard=WASHOUT * self.slice, slice=self.slice, doubled=True
                )
                names = [arm.name for arm in ARMS]
                for step in plan_steps(
                    choice, names, seconds=self.run, seed=turn_seed(seed, block + 1, 0), block=block + 1
                ):
                    end = now + step.length
                    found.append((block, names.index(step.arms[0]), (now + step.guard) / TICK, end / TICK))
                    now = end
                continue
            for arm in (0, 1) if after[block] else (1, 0):
                now += PAUSE
                count = round(self.run / self.slice)
                for place in range(count):
                    begin = now + place * self.slice
                    found.append((block, arm, begin / TICK, (begin + self.slice) / TICK))
                now += self.run
        return found, after, int(np.ceil(now / TICK)) + 1


DESIGNS = (
    Design(run=15, slice=1),
    Design(run=15, slice=5),
    Design(run=30, slice=5),
    Design(run=30, slice=10),
    Design(run=15, slice=1, turn=True),
    Design(run=15, slice=2, turn=True),
)
SETS = {
    **{name: (CHANNELS.index(name),) for name in ("late", "walk", "write", "others")},
    "own work": (2, 4),
    "probe": tuple(range(7)),
    "all": tuple(range(9)),
}


def ends(comparison: Comparison) -> tuple[float, float]:
    """Of the interval of the log ratio."""
    if comparison.low is None or comparison.high is None:
        raise ValueError("expected blocks that differ")
    return float(np.log(comparison.low)), float(np.log(comparison.high))


def half_width(comparison: Comparison) -> float:
    low, high = ends(comparison)
    return (high - low) / 2


def misses(comparison: Comparison) -> bool:
    """Whether the interval does not hold zero, which is the truth."""
    low, high = ends(comparison)
    return not low <= 0 <= high


Experiments = list[tuple[Blocks, "NDArray[np.bool_] | None"]]


def draw(recordings: Sequence[Recorded], design: Design, experiments: int) -> Experiments:
    """Experiments in which nothing differs, of the most blocks, each with a seed of its own."""
    found: Experiments = []
    for seed in range(experiments):
        slices, after, ticks = design.slices(seed, max(BLOCKS))
        series = resample(recordings[seed % len(recordings)], ticks, np.random.default_rng(seed))
        found.append((cut(series, slices, max(BLOCKS)), None if design.turn else after))
    return found


def score_design(design: Design, drawn: Experiments) -> None:
    shifts = np.concatenate([blocks.shifts for blocks, _ in drawn])
    before = np.concatenate([blocks.before for blocks, _ in drawn])
    log_ratios = np.concatenate([blocks.log_ratios for blocks, _ in drawn])
    of_shifts, of_before = (
        [float(np.corrcoef(log_ratios, column)[0, 1]) for column in each.T] for each in (shifts, before)
    )
    print(f"\n{design.text}; SD of a block's log ratio {log_ratios.std():.3f}")
    print(f"  correlations with it      : {_table(of_shifts)}")
    print(f"  with the {EARLIER:g} s before the runs: {_table(of_before)}")
    for count in BLOCKS:
        raw = [_judge(blocks.log_ratios[:count], after) for blocks, after in drawn]
        widths = np.array([half_width(each) for each in raw])
        print(f"  {count} blocks: half-width {widths.mean():.3f}, misses {_share(raw):.1f} %")
        for name, channels in SETS.items():
            rid = [
                _judge(first.log_ratios - predicted(first, channels), after)
                for first, after in ((first_of(blocks, count), after) for blocks, after in drawn)
            ]
            adjusted = np.array([half_width(each) for each in rid])
            ratio = adjusted.mean() / widths.mean()
            print(
                f"    {name:15} width x {ratio:.2f}, time x {ratio**2:.2f}, misses {_share(rid):4.1f} %, "
                f"wider in {100 * np.mean(adjusted > widths):.0f} %"
            )
        covaried = [
            adjust_for(blocks.log_ratios[:count], blocks.shifts[:count, WALK], after=None if a is None else a[:count])
            for blocks, a in drawn
        ]
        known = [each for each in covaried if each is not None]
        half = np.array([np.log(each.high / each.low) / 2 for each in known])
        wrong = np.mean([not each.low <= 1 <= each.high for each in known])
        print(f"    {'walk, by ANCOVA':15} width x {half.mean() / widths.mean():.2f}, misses {100 * wrong:4.1f} %")


def _judge(log_ratios: Floats, after: "NDArray[np.bool_] | None") -> Comparison:
    return compare(log_ratios, None if after is None else after[: log_ratios.size], confidence=0.95)


def _share(comparisons: Sequence[Comparison]) -> float:
    return 100 * float(np.mean([misses(each) for each in comparisons]))


def _table(values: Sequence[float]) -> str:
    return ", ".join(f"{name} {value:+.2f}" for name, value in zip(CHANNELS, values, strict=True))


def score_shifts(drawn: Experiments, count: int, channels: Sequence[int]) -> None:
    """An arm that slows the probe alone, by so many SD of a block's difference: what is missed, and what is noticed.

    Guarded: adjusted only where what the probe predicts of the effect is equivalent to zero.
    """
    deviations = np.concatenate([blocks.shifts for blocks, _ in drawn]).std(axis=0)
    deviations = deviations * np.isin(np.arange(len(CHANNELS)), channels)
    for size in (0.0, 0.5, 1.0, 2.0):
        missed, noticed = [], []
        guarded: dict[str, list[tuple[bool, bool, float]]] = {}
        for blocks, after in drawn:
            first = first_of(blocks, count)
            bias = predicted(replace(first, shifts=first.shifts + size * deviations), channels)
            raw, rid, shift = (_judge(each, after) for each in (first.log_ratios, first.log_ratios - bias, bias))
            missed.append(misses(rid))
            noticed.append(misses(shift))
            for text, bound in (
                ("half its half-width", half_width(rid) / 2),
                ("its half-width", half_width(rid)),
                ("3 %", float(np.log(1.03))),
            ):
                passes = (equivalence_p(shift, bounds=(-bound, bound)) or 0.0) < 0.05
                chosen = rid if passes else raw
                guarded.setdefault(text, []).append((passes, misses(chosen), half_width(chosen) / half_width(raw)))
        print(
            f"    probe slower by {size:g} SD: misses {100 * np.mean(missed):.1f} %, "
            f"noticed in {100 * np.mean(noticed):.0f} %"
        )
        for text, outcomes in guarded.items():
            passed, wrong, width = np.mean(outcomes, axis=0)
            print(
                f"      guarded, by {text}: adjusted in {100 * passed:.0f} %, misses {100 * wrong:.1f} %, "
                f"width x {width:.2f}"
            )


def correlate(recorded: Recorded) -> None:
    """Of the throughput with each channel, in bins of several lengths."""
    for seconds in (1, 5, 15, 30):
        edges = np.arange(0, recorded.counts.size, seconds / TICK)
        counts = _between(recorded.counts, edges[:-1], edges[1:])
        readings = _between(recorded.readings, edges[:-1], edges[1:])
        means = _between(recorded.sums, edges[:-1], edges[1:]) / np.maximum(readings, 1e-9)
        known = readings.min(axis=0) > 0
        y, x = counts[known] / counts[known].mean(), means[:, known]
        found = [float(np.corrcoef(y, row)[0, 1]) for row in x]
        explained = []
        for channels in (SETS["own work"], SETS["probe"], SETS["all"]):
            design = np.column_stack([np.ones(y.size), *(x[channel] for channel in channels)])
            left = y - design @ np.linalg.lstsq(design, y)[0]
            explained.append(1 - left.var() / y.var() * (y.size - 1) / (y.size - design.shape[1]))
        print(
            f"  bins of {seconds} s (CV {y.std():.2f}): {_table(found)}; R2, corrected for the number of bins: "
            f"own work {explained[0]:.2f}, probe {explained[1]:.2f}, all {explained[2]:.2f}"
        )


def score(paths: Sequence[Path], experiments: int, only: str) -> None:
    calm = [read_recording(path) for path in paths]
    for recorded in calm:
        correlate(recorded)
    for design in DESIGNS:
        if only not in design.text:
            continue
        drawn = draw(calm, design, experiments)
        score_design(design, drawn)
        if not design.turn:
            for name in ("late", "probe"):
                print(f"  an arm that slows the probe alone, 12 blocks, {name}")
                score_shifts(drawn, 12, SETS[name])


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure whether a reference channel pays.")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="a load and the probe beside it")
    recording.add_argument("file", type=Path, help="where it goes (.npz)")
    recording.add_argument("--minutes", type=float, default=15, help="(15)")
    scoring = commands.add_parser("score", help="recordings, cut into experiments")
    scoring.add_argument("files", type=Path, nargs="+", help="what record has written")
    scoring.add_argument("--experiments", type=int, default=1000, help="of each design (1000)")
    scoring.add_argument("--only", default="", help="designs with this in their name, such as turns")
    options = parser.parse_args()
    if options.command == "record":
        asyncio.run(record(options.file, options.minutes))
    else:
        score(options.files, options.experiments, options.only)


if __name__ == "__main__":
    main()
