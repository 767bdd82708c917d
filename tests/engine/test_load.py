import asyncio
import math
import time
from pathlib import Path

import pytest

from pgtrial.engine.loads.generators import run_generators
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.processes import find_marked
from pgtrial.workloads.pgbench import Generator

# Clients that mostly sleep leave the processors to what runs at the same time.
LIGHT = "SELECT pg_sleep(0.005);"


@pytest.fixture(scope="module")
def cluster(programs, run_cluster):
    with asyncio.Runner() as runner, run_cluster(programs, runner) as running:
        yield running


@pytest.fixture
def load(cluster, tmp_path, runner):
    """Run scripts side by side, one generator each; gives the outcome and what was told every second."""
    mark = str(tmp_path)

    def run(scripts, *, seconds, options=(), on_second=lambda _tps, _latency: False, on_start=lambda *_: None):
        generators = [
            make_generator(cluster, tmp_path, name, script, seconds=seconds, options=options)
            for name, script in scripts.items()
        ]
        told = []

        def listen(tps, latency):
            told.append((tps, latency))
            return on_second(tps, latency)

        outcome = runner.run(
            run_generators(
                LocalHost(mark=mark, on_start=on_start),
                generators,
                environment=cluster.environment("postgres"),
                on_second=listen,
            )
        )
        return outcome, told

    yield run
    assert find_marked(mark) == (), "a generator was left running"


def make_generator(cluster, directory, name, script, *, seconds, options=()):
    path = directory / f"{name}.sql"
    path.write_text(script)
    return Generator(
        program=cluster.programs.path("pgbench"),
        argv_tail=(
            "--no-vacuum",
            f"--time={seconds}",
            "--client=1",
            "--progress=1",
            "--progress-timestamp",
            "--log",
            f"--log-prefix={name}",
            *options,
            f"--file={path}@1",
        ),
        environment={"PGAPPNAME": f"pgtrial/{name}", "LC_ALL": "C"},
        scenario_names=(name,),
        clients=1,
        directory=str(directory),
        log_prefix=name,
    )


def test_generators_add_up_second_by_second(load):
    # Closed loops of known length: at most 100 and 50 transactions per second.
    outcome, told = load({"a": "SELECT pg_sleep(0.01);", "b": "SELECT pg_sleep(0.02);"}, seconds=4)

    assert outcome.errors == ()
    a, b = (summary.processed for summary in outcome.summaries)
    assert 0 < b < a
    assert len(told) >= 3
    # Each second has those of both; a is two thirds of them. A second in which the machine stood still has fewer.
    assert sum(tps for tps, _ in told) / len(told) == pytest.approx((a + b) / 4, rel=0.25)


def test_latency_is_the_mean_over_transactions_not_over_generators(load):
    _, told = load({"quick": "SELECT pg_sleep(0.005);", "slow": "SELECT pg_sleep(0.2);"}, seconds=3)

    for tps, latency in told:
        # Two clients without a pause: throughput times latency is the number of clients (Little's law).
        assert tps * latency == pytest.approx(2, rel=0.25)
        assert latency < 0.05, "the mean of both generators' means would be above 0.1"


def test_script_that_fails_ends_the_others_early(load):
    begin = time.monotonic()
    outcome, _ = load({"good": LIGHT, "bad": "SELECT 1 / 0;"}, seconds=60)

    assert time.monotonic() - begin < 50  # of 60 s
    assert all(error.startswith("bad: ") for error in outcome.errors)
    assert "division by zero" in outcome.errors[0]


def test_enough_is_enough_for_all(load):
    begin = time.monotonic()
    outcome, told = load({"a": LIGHT, "b": LIGHT}, seconds=60, on_second=lambda tps, _: tps > 0)

    assert time.monotonic() - begin < 50  # of 60 s
    assert len(told) == 1
    assert outcome.errors == ()


def test_cancelling_ends_all(load, cluster, tmp_path, runner):
    async def cancelled():
        begun = asyncio.Event()
        task = asyncio.create_task(
            run_generators(
                LocalHost(mark=str(tmp_path)),
                [make_generator(cluster, tmp_path, name, LIGHT, seconds=60) for name in ("a", "b")],
                environment=cluster.environment("postgres"),
                on_second=lambda _tps, _latency: begun.set() or False,
            )
        )
        await begun.wait()
        assert len(find_marked(str(tmp_path))) == 2
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    runner.run(cancelled())


def test_error_behind_a_flood_of_notices_is_found(load):
    flood = (
        "DO $$ BEGIN FOR i IN 1..5000 LOOP RAISE NOTICE 'notice %', i; END LOOP;"
        " RAISE NOTICE '%', repeat('x', 3000000); RAISE EXCEPTION 'the telling one'; END $$;"
    )
    outcome, _ = load({"flood": flood}, seconds=60)

    assert "the telling one" in outcome.errors[0]
    assert len("".join(outcome.errors)) < 10_000


def test_no_generator_ends_before_the_time_counted_from_the_first_start(load, tmp_path):
    # Starting takes long, as where process ids are written to a busy disk; the first generator waits for nobody.
    outcome, _ = load({"a": LIGHT, "b": LIGHT, "c": LIGHT}, seconds=2, on_start=lambda *_: time.sleep(0.3))

    assert outcome.all_started - outcome.started > 0.8
    for name in "abc":
        (log,) = tmp_path.glob(f"{name}.*[0-9]")
        ends = [float(line.split()[4]) + float(line.split()[5]) / 1e6 for line in log.read_text().splitlines()]
        assert max(ends) > outcome.started + 2 - 0.05


def test_many_loads_leave_no_file_open(load):
    def open_files():
        return len(list(Path("/proc/self/fd").iterdir()))

    load({"a": LIGHT, "b": LIGHT}, seconds=60, on_second=lambda *_: True)
    before = open_files()
    for _ in range(3):
        load({"a": LIGHT, "b": LIGHT}, seconds=60, on_second=lambda *_: True)
        load({"a": "SELECT 1 / 0;"}, seconds=60)

    assert open_files() <= before


def test_seconds_without_transactions_have_no_latency(load):
    _, told = load({"slow": "SELECT pg_sleep(2.5);"}, seconds=2)

    assert told[0] == (0, None)
    assert all(latency is None or math.isfinite(latency) for _, latency in told)
