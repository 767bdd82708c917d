import json
import re
from pathlib import Path

import duckdb

from pgtrial.model.histogram import bucket_value


def only_folder(directory: Path) -> Path:
    (folder,) = (directory / "results").iterdir()
    return folder


def test_hypothesis_file_becomes_verdict_report_and_data(pgtrial, experiment_file, tmp_path):
    result = pgtrial("run", str(experiment_file()))

    assert result.returncode == 0, result.stderr
    folder = only_folder(tmp_path)
    assert f"report: {folder.relative_to(tmp_path)}/report.html" in result.stdout
    findings = json.loads((folder / "findings.json").read_text())
    assert [run["state"] for run in findings["runs"]] == ["done"] * 4
    assert findings["hypothesis"]["verdict"] in ("supported", "inconclusive", "refuted")
    assert findings["hypothesis"]["reason"] in " ".join(result.stdout.split())
    effect = next(e for e in findings["effects"] if e["metric"] == "pgbench.tps" and e["load_level"] == "all")
    assert effect["arm"] == "off"
    assert effect["ratio"] > 1
    report = (folder / "report.html").read_text()
    assert not re.search(r'(?:src|href)="https?:', report)
    # The log's transactions are what the summary says, and the sampler was there every second.
    run_folders = sorted((folder / "runs").iterdir())
    assert {path.name.split("-")[1] for path in run_folders} == {"on", "off"}
    for path in run_folders:
        count, seconds = duckdb.sql(
            f"SELECT sum(count), count(DISTINCT second) FROM '{path}/transactions.parquet'"
        ).fetchall()[0]
        assert count > 0
        assert seconds == 2
        (ticks,) = duckdb.sql(
            f"SELECT count(*) FROM '{path}/samples.parquet' WHERE metric = 'proc_loadavg.load1'"
        ).fetchall()[0]
        assert ticks >= 3
        entries = [json.loads(line) for line in (path / "server.jsonl").read_text().splitlines()]
        assert any(entry["message"].startswith("checkpoint complete") for entry in entries)
    assert not list(folder.glob("runs/*/pgbench")), "pgbench's logs are removed once they are read"


def test_report_is_rebuilt_from_the_folder_alone(pgtrial, experiment_file, tmp_path):
    file = experiment_file()
    assert pgtrial("run", str(file)).returncode == 0
    folder = only_folder(tmp_path)
    first = json.loads((folder / "findings.json").read_text())
    moved = folder.rename(tmp_path / "moved")
    file.unlink()
    for name in ("findings.json", "report.html"):
        (moved / name).unlink()

    result = pgtrial("report", str(moved))

    assert result.returncode == 0, result.stderr
    assert json.loads((moved / "findings.json").read_text()) == first
    assert (moved / "report.html").stat().st_size > 100_000


def test_levels_scenarios_and_placebo_in_one_experiment(pgtrial, tmp_path):
    (tmp_path / "write.sql").write_text("INSERT INTO log VALUES (:client_id);\n")
    (tmp_path / "setup.sql").write_text("CREATE TABLE log (who int);\n")
    (tmp_path / "mixed.toml").write_text(
        """
        format = 1
        experiment = { name = "mixed" }
        [dataset]
        scale = 1
        setup = "setup.sql"
        [workload]
        clients = [2, 3]
        duration = "1s"
        warmup = 0
        protocol = "prepared"
        [[workload.scenario]]
        name = "read"
        builtin = "select-only"
        share = 2
        [[workload.scenario]]
        name = "write"
        file = "write.sql"
        sessions = 1
        [factors.work_mem]
        levels = ["4MB", "8MB"]
        [design]
        blocks = 2
        placebo = true
        """
    )

    result = pgtrial("run", "mixed.toml")

    assert result.returncode == 0, result.stderr
    folder = only_folder(tmp_path)
    findings = json.loads((folder / "findings.json").read_text())
    assert [level["clients"] for level in findings["experiment"]["levels"]] == [2, 3]
    assert {run["arm"] for run in findings["runs"]} >= {"placebo"}
    seen = duckdb.sql(
        f"SELECT DISTINCT level, scenario FROM '{folder}/runs/*/transactions.parquet' ORDER BY ALL"
    ).fetchall()
    assert seen == [(0, "read"), (0, "write"), (1, "read"), (1, "write")]
    waits = duckdb.sql(f"SELECT DISTINCT application FROM '{folder}/runs/*/waits.parquet'").fetchall()
    assert {"pgtrial/read", "pgtrial/write"} <= {name for (name,) in waits}
    assert findings["placebo"]


def test_open_loop_has_the_rate_that_was_asked_for(pgtrial, experiment_file, tmp_path):
    file = experiment_file(
        ('mix      = "simple-update"', 'mix = "select-only"\nrate = 200\nlatency_limit = "100ms"'),
        ('duration = "2s"', 'duration = "3s"'),
        ("blocks = 2", "blocks = 1"),
    )

    result = pgtrial("run", str(file))

    assert result.returncode == 0, result.stderr
    rows = duckdb.sql(
        f"SELECT sum(count + skipped) / 3.0 FROM '{only_folder(tmp_path)}/runs/*/transactions.parquet' "
        "GROUP BY filename"
    ).fetchall()
    # Poisson arrivals: 600 in 3 s, standard deviation 24.5; six of them.
    assert all(abs(rate - 200) < 50 for (rate,) in rows)


def test_latencies_agree_with_pgbenchs_own_mean(pgtrial, experiment_file, tmp_path):
    assert pgtrial("run", str(experiment_file(("blocks = 2", "blocks = 1")))).returncode == 0
    for path in (only_folder(tmp_path) / "runs").iterdir():
        total, count, buckets, counts = duckdb.sql(
            "SELECT sum(latency_sum), sum(count), flatten(list(buckets)), flatten(list(bucket_counts)) "
            f"FROM '{path}/transactions.parquet'"
        ).fetchall()[0]
        assert sum(counts) == count
        from_histogram = sum(bucket_value(b) * n for b, n in zip(buckets, counts, strict=True)) / count
        assert abs(from_histogram / (total / count) - 1) < 0.01


def test_quick_way_without_a_file(pgtrial, tmp_path):
    result = pgtrial(
        "run", "-s", "work_mem=4MB,8MB", "--mix", "select-only", "--duration", "1s", "--blocks", "2", "--scale", "1",
        "--clients", "2",
    )  # fmt: skip

    assert result.returncode == 0, result.stderr
    folder = only_folder(tmp_path)
    assert pgtrial("check", str(folder / "experiment.toml")).returncode == 0
    assert "4MB" in (folder / "experiment.toml").read_text()


def test_assert_gives_the_verdict_as_exit_status(pgtrial, experiment_file, tmp_path):
    result = pgtrial("run", "--assert", str(experiment_file(('expect = "better"', 'expect = "worse"'))))

    findings = json.loads((only_folder(tmp_path) / "findings.json").read_text())
    expected = {"supported": 0, "refuted": 3, "inconclusive": 4, "invalid": 5}[findings["hypothesis"]["verdict"]]
    assert result.returncode == expected
    assert expected != 0
