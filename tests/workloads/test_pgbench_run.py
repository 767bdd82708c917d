"""Planned processes on a real server: what they say of themselves, and what their logs say, is the same."""

import contextlib
import time
from pathlib import Path

import pytest

from pgtrial.experiment_file.workload_table import WorkloadTable
from pgtrial.model.histogram import bucket_value
from pgtrial.model.run import LoadLevel
from pgtrial.store.parquet import read
from pgtrial.store.transactions import LevelLog, ingest
from pgtrial.workloads.pgbench import find_errors, parse_progress, parse_summary, plan_generators
from pgtrial.workloads.scenarios import Scenario

# It waits where others can come between, and so leaves the processors alone.
CONFLICT = """
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT sum(abalance), pg_sleep(0.004) FROM pgbench_accounts WHERE aid <= 5;
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 1;
END;
"""


@pytest.fixture
def play(server, tmp_path):
    """Plan, run all processes at the same time, return [(generator, status, stdout, stderr)]."""

    def run(scenarios, level, *, seconds=2, seed=1, meanwhile=lambda: None, **workload):
        for scenario in scenarios:
            if scenario.script is not None:
                (tmp_path / f"{scenario.name}.sql").write_text(scenario.script)
        generators = plan_generators(
            scenarios,
            level,
            program=Path("pgbench"),
            workload=WorkloadTable.model_validate({"mix": "oltp", **workload}),
            seconds=seconds,
            cpus=2,
            directory=str(tmp_path),
            logged=True,
            seed=seed,
        )
        with contextlib.ExitStack() as stack:
            processes = [
                stack.enter_context(server.start_pgbench(g.argv_tail, g.environment, directory=g.directory))
                for g in generators
            ]
            meanwhile()
            outputs = [process.communicate(timeout=60) for process in processes]
        return [
            (generator, process.returncode, *output)
            for generator, process, output in zip(generators, processes, outputs, strict=True)
        ]

    return run


def logs_of(results, *, has_rate=False, latency_limit=None, max_tries=1):
    return [
        LevelLog(
            level=0,
            scenarios=generator.scenario_names,
            files=tuple(Path(generator.directory).glob(f"{generator.log_prefix}.*")),
            window=(0.0, 4e9),
            latency_limit=latency_limit,
            has_rate=has_rate,
            max_tries=max_tries,
        )
        for generator, *_ in results
    ]


def totals(results, name):
    return sum(getattr(parse_summary(stdout), name) or 0 for _, _, stdout, _ in results)


MIX = (
    Scenario(name="select", builtin="select-only", share=0.6),
    Scenario(name="conflict", script=CONFLICT, share=0.4),
)
SITUATIONS = {
    "closed": {},
    "weights": {"share": "transactions"},
    "retries": {"share": "transactions", "max_tries": 3},
    "open": {"rate": 2000.0, "latency_limit": "1ms"},
    "open-retries": {"rate": 500.0, "latency_limit": "100ms", "max_tries": 2},
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_logs_say_what_pgbench_says(play, tmp_path, situation):
    workload = dict(SITUATIONS[situation])
    rate = workload.pop("rate", None)
    limit = {"1ms": 0.001, "100ms": 0.1}.get(workload.get("latency_limit"))

    results = play(MIX, LoadLevel(index=0, clients=5, rate=rate), seconds=1, **workload)

    assert [(status, find_errors(stderr)) for _, status, _, stderr in results] == [(0, ())] * len(results)
    out = tmp_path / "transactions.parquet"
    logs = logs_of(results, has_rate=rate is not None, latency_limit=limit, max_tries=workload.get("max_tries", 1))
    report = ingest(logs, out)
    assert report.counted == totals(results, "processed") > 0
    assert report.failed == totals(results, "failed")
    assert report.skipped == totals(results, "skipped")
    assert report.transactions == report.counted + report.failed + report.skipped
    found = read(
        [out],
        "SELECT scenario, sum(count) AS count, sum(late) AS late, sum(retries) AS retries, sum(latency_sum) AS latency,"
        " sum(lag_sum) AS lag, flatten(list(buckets)) AS buckets, flatten(list(bucket_counts)) AS counts"
        " FROM {files} GROUP BY scenario",
    )
    assert sorted(found["scenario"]) == ["conflict", "select"]
    if limit is not None:
        assert sum(found["late"]) == totals(results, "late")
    assert sum(found["retries"]) == totals(results, "retries")
    for generator, _, stdout, _ in results:
        told = parse_summary(stdout)
        mine = [name in generator.scenario_names for name in found["scenario"]]
        count, latency = sum(found["count"][mine]), sum(found["latency"][mine])
        assert latency / count == pytest.approx(told.latency_mean, abs=2e-6)
        histogram = sum(
            bucket_value(int(bucket)) * n
            for buckets, counts in zip(found["buckets"][mine], found["counts"][mine], strict=True)
            for bucket, n in zip(buckets, counts, strict=True)
        )
        assert histogram == pytest.approx(latency, rel=0.01)
        if told.lag_mean is not None:
            assert sum(found["lag"][mine]) / count == pytest.approx(told.lag_mean, abs=2e-6)


def test_sessions_carry_the_name_of_their_scenario(play, server):
    expected, seen = {"pgtrial/select": 3, "pgtrial/conflict": 2}, []

    def look():
        deadline = time.monotonic() + 5
        while (
            expected not in seen and time.monotonic() < deadline
        ):  # sessions of an earlier test may be on their way out
            seen.append(
                dict(
                    server.query(
                        "SELECT application_name, count(*) FROM pg_stat_activity "
                        "WHERE application_name LIKE 'pgtrial/%%' GROUP BY 1"
                    )
                )
            )

    play(MIX, LoadLevel(index=0, clients=5, rate=100.0), meanwhile=look)

    assert expected in seen


def test_the_same_seed_gives_the_same_random_numbers(play, server):
    draw = (
        Scenario(
            name="draw",
            script="\\set number random(1, 2000000000)\n"
            "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (0, 0, :number, 0, clock_timestamp());\n",
            share=1.0,
        ),
    )
    drawn = []
    for seed in (1, 1, 2):
        server.execute("DELETE FROM pgbench_history")
        play(draw, LoadLevel(index=0, clients=1, rate=200.0), seconds=1, seed=seed)
        drawn.append([number for (number,) in server.query("SELECT aid FROM pgbench_history ORDER BY mtime LIMIT 50")])

    assert len(drawn[0]) == 50
    assert drawn[0] == drawn[1] != drawn[2]


def test_an_sql_error_in_a_script_is_found(play):
    script = "SELECT 1;\nSELECT nonsense FROM pgbench_accounts;\n"

    ((_, status, _, stderr),) = play(
        (Scenario(name="own", script=script, share=1.0),), LoadLevel(index=0, clients=2), seconds=1
    )

    assert status != 0
    assert any('ERROR:  column "nonsense" does not exist' in error for error in find_errors(stderr))


def test_clients_lost_in_the_middle_are_found_though_the_others_go_on(play, server):
    def terminate():
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            if server.query(
                "SELECT pg_terminate_backend(min(pid)) FROM pg_stat_activity "
                "WHERE application_name = 'pgtrial/select' AND query LIKE '%%abalance%%' HAVING count(*) = 3"
            ):
                return

    ((_, status, stdout, stderr),) = play(MIX[:1], LoadLevel(index=0, clients=3, rate=300.0), meanwhile=terminate)

    assert status != 0
    assert any(parse_progress(line) for line in stderr.splitlines())
    assert any("terminating connection" in error for error in find_errors(stderr))
    assert (parse_summary(stdout).processed or 0) > 0


def test_more_clients_than_connections_are_found(play):
    ((_, status, stdout, stderr),) = play(MIX[:1], LoadLevel(index=0, clients=120), seconds=1)

    assert status != 0
    assert any("too many clients already" in error for error in find_errors(stderr))
    assert parse_summary(stdout).processed is None
