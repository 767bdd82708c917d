"""Load levels, scenarios and a placebo in one experiment."""

import json

import duckdb


def test_levels_scenarios_and_placebo_in_one_experiment(place):
    (place.directory / "größer ü.sql").write_text("INSERT INTO log VALUES (:client_id);\n")
    # Making the data takes longer than a statement of the load may.
    (place.directory / "setup.sql").write_text("CREATE TABLE log (who int);\nSELECT pg_sleep(1.2);\n")
    (place.directory / "mixed.toml").write_text(
        """
        format = 1
        experiment = { name = "mixed" }
        hypothesis = { claim = "größer is 更快" }
        [target.postgresql]
        statement_timeout = "1s"
        [dataset]
        scale = 1
        setup = "setup.sql"
        [workload]
        clients = [2, 3]
        rate = [100, 150]
        duration = "1s"
        warmup = 0
        protocol = "prepared"
        [[workload.scenario]]
        name = "read"
        builtin = "select-only"
        share = 2
        [[workload.scenario]]
        name = "write"
        file = "größer ü.sql"
        sessions = 1
        [factors.work_mem]
        levels = ["4MB", "8MB"]
        [design]
        blocks = 1
        placebo = true
        """
    )

    result = place.run("run", "mixed.toml")

    assert result.returncode == 0, result.stderr
    folder = place.only_folder().path
    findings = json.loads((folder / "findings.json").read_text())
    assert findings["hypothesis"]["claim"] == "größer is 更快"
    assert [level["clients"] for level in findings["experiment"]["levels"]] == [2, 3]
    assert {run["arm"] for run in findings["runs"]} >= {"placebo"}
    seen = duckdb.sql(
        f"SELECT DISTINCT level, scenario FROM '{folder}/runs/*/transactions.parquet' ORDER BY ALL"
    ).fetchall()
    assert seen == [(0, "read"), (0, "write"), (1, "read"), (1, "write")]
    waits = duckdb.sql(f"SELECT DISTINCT application FROM '{folder}/runs/*/waits.parquet'").fetchall()
    assert {"pgtrial/read", "pgtrial/write"} <= {name for (name,) in waits}
    assert findings["placebo"]
