import json
import os
import re
import shutil
from pathlib import Path

import duckdb
import pytest

from pgtrial.hosts.local import server_account
from pgtrial.model.histogram import bucket_value
from pgtrial.store import layout

STATUS = {"supported": 0, "refuted": 3, "inconclusive": 4, "invalid": 5}


def read_findings(folder: Path):
    return json.loads((folder / "findings.json").read_text())


def test_hypothesis_file_becomes_verdict_report_and_data(finished):
    folder, result = finished.folder, finished.result

    assert "Traceback" not in finished.watched.text
    assert f"report: {folder.relative_to(folder.parents[1])}/report.html" in result.stdout
    findings = read_findings(folder)
    assert [run["state"] for run in findings["runs"]] == ["done"] * 6
    assert findings["hypothesis"]["verdict"] in ("supported", "inconclusive", "refuted")
    assert findings["hypothesis"]["reason"] in " ".join(result.stdout.split())
    effect = next(e for e in findings["effects"] if e["metric"] == "pgbench.tps" and e["load_level"] == "all")
    assert effect["arm"] == "off"
    assert effect["ratio"] > 1.2
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
        assert seconds == 3
        (ticks,) = duckdb.sql(
            f"SELECT count(*) FROM '{path}/samples.parquet' WHERE metric = 'proc_loadavg.load1'"
        ).fetchall()[0]
        assert ticks >= 3
        entries = [json.loads(line) for line in (path / "server.jsonl").read_text().splitlines()]
        assert any(entry["message"].startswith("checkpoint complete") for entry in entries)


def test_it_can_be_watched(finished):
    finished.watched.check(runs="run 1 of 6", arms=["on", "off"], blocks=3, is_by_second=True)
    assert not (finished.folder / layout.LIVE).exists()


def test_raw_files_are_removed_once_they_are_read(finished):
    for run in (finished.folder / "runs").iterdir():
        assert {path.name for path in run.iterdir()} == {
            "transactions.parquet",
            "samples.parquet",
            "waits.parquet",
            "server.jsonl",
        }


def test_assert_gives_the_verdict_as_exit_status(finished):
    expected = STATUS[read_findings(finished.folder)["hypothesis"]["verdict"]]

    assert finished.result.returncode == expected


def test_assert_of_a_claim_that_does_not_hold_is_no_success(place, copied):
    file = copied / "experiment.toml"
    file.write_text(file.read_text().replace('expect = "better"', 'expect = "worse"'))

    result = place.run("resume", "--assert", str(copied))

    expected = STATUS[read_findings(copied)["hypothesis"]["verdict"]]
    assert result.returncode == expected
    assert expected != 0


def test_report_is_rebuilt_from_the_folder_alone(place, copied):
    first = read_findings(copied)
    moved = copied.rename(place.directory / "moved")
    for name in ("findings.json", "report.html"):
        (moved / name).unlink()

    result = place.run("report", str(moved))

    assert result.returncode == 0, result.stderr
    assert read_findings(moved) == first
    assert (moved / "report.html").stat().st_size > 100_000


def test_folder_that_may_only_be_read_is_understood(place, finished, enterable):
    copied = Path(shutil.copytree(finished.folder, enterable / "copied"))
    account = server_account()
    (enterable / "own").mkdir()
    if account is not None:
        os.chown(enterable / "own", account.uid, account.gid)
    for path in (*copied.rglob("*"), copied):
        path.chmod(path.stat().st_mode & 0o555 | 0o444)
    page = enterable / "own" / "page.html"

    status = place.run("status", str(copied), account=account)
    written = place.run("report", str(copied), "--output", str(page), account=account)
    refused = place.run("report", str(copied), account=account)

    assert status.returncode == 0, status.stderr
    assert "6 of 6 runs done, complete" in status.stdout
    assert written.returncode == 0, written.stderr
    assert page.stat().st_size > 100_000
    assert refused.returncode == 1
    assert refused.stderr.count("error: cannot write") == 1


def test_open_loop_has_the_rate_that_was_asked_for(open_loop):
    assert open_loop.result.returncode == 0, open_loop.result.stderr
    rows = duckdb.sql(
        f"SELECT sum(count + skipped) / 3.0 FROM '{open_loop.folder}/runs/*/transactions.parquet' GROUP BY filename"
    ).fetchall()
    # Poisson arrivals: 600 in 3 s, standard deviation 24.5; six of them.
    assert len(rows) == 2
    assert all(abs(rate - 200) < 50 for (rate,) in rows)


def test_work_directory_with_a_path_that_is_none_for_a_socket_works(open_loop):
    assert open_loop.result.returncode == 0, open_loop.result.stderr
    assert list(open_loop.work_base.iterdir()) == []
    open_loop.place.only_folder().assert_nothing_left()


def test_latencies_agree_with_pgbenchs_own_mean(finished):
    for path in (finished.folder / "runs").iterdir():
        total, count, buckets, counts = duckdb.sql(
            "SELECT sum(latency_sum), sum(count), flatten(list(buckets)), flatten(list(bucket_counts)) "
            f"FROM '{path}/transactions.parquet'"
        ).fetchall()[0]
        assert sum(counts) == count
        from_histogram = sum(bucket_value(b) * n for b, n in zip(buckets, counts, strict=True)) / count
        assert abs(from_histogram / (total / count) - 1) < 0.01


def test_second_pgtrial_on_the_same_folder_is_refused(finished):
    resume, status = finished.meanwhile["resume"], finished.meanwhile["status"]

    assert resume.returncode == 1
    assert "in use by another pgtrial" in resume.stderr
    assert "running" in status.stdout


def test_copy_of_a_folder_in_use_does_not_disturb_it(finished):
    resume, status = finished.of_copy["resume"], finished.of_copy["status"]

    assert resume.returncode == 1
    assert "copy of one that is in use" in resume.stderr
    assert "killed pgtrial" not in status.stdout
    runs = json.loads((finished.folder / "findings.json").read_text())["runs"]
    assert [run["state"] for run in runs] == ["done"] * 6


@pytest.fixture(scope="module")
def mixed_and_quick(new_place, ended):
    """Two experiments that are run at the same time: one with everything that there is, and one without a file."""
    place, other = new_place("mixed"), new_place("quick")
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

    mixed = place.start("run", "mixed.toml")
    quick = other.start(
        "run", "-s", "work_mem=4MB,8MB", "--mix", "select-only", "--duration", "1s", "--blocks", "1",
        "--scale", "1", "--clients", "1", "--warmup", "0",
    )  # fmt: skip
    ended.extend([mixed, quick])
    return (place, place.finish(mixed)), (other, other.finish(quick))


def test_levels_scenarios_and_placebo_in_one_experiment(mixed_and_quick):
    place, result = mixed_and_quick[0]

    assert result.returncode == 0, result.stderr
    folder = place.only_folder().path
    findings = read_findings(folder)
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


def test_quick_way_without_a_file(mixed_and_quick):
    place, result = mixed_and_quick[1]

    assert result.returncode == 0, result.stderr
    folder = place.only_folder().path
    assert place.run("check", str(folder / "experiment.toml")).returncode == 0
    assert "4MB" in (folder / "experiment.toml").read_text()


@pytest.mark.thorough
def test_demo_needs_no_installed_server_and_no_open_directory(embedded, place, tmp_path_factory):
    """It finds no installed server, and the wheel in a directory that the server's user cannot enter."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("hiding the installed servers from one command needs root and the program unshare")
    closed = tmp_path_factory.mktemp("closed") / "site"
    closed.mkdir()
    closed.parent.chmod(0o700)
    hide = (
        "for place in /usr/lib/postgresql /usr/pgsql-* /usr/local/pgsql /opt/pgsql*; do"
        ' ! [ -d "$place" ] || mount -t tmpfs tmpfs "$place"; done;'
        f" mount --bind '{embedded.parent}' '{closed}'; exec \"$@\""
    )
    one = str(min(os.sched_getaffinity(0)))  # of the processors: the load takes all that it can get
    result = place.run(
        "demo", "--blocks", "2", "--duration", "1s", "--warmup", "0",
        prefix=("taskset", "--cpu-list", one, "unshare", "--mount", "sh", "-e", "-c", hide, "sh"),
        environment={"PYTHONPATH": str(closed), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )  # fmt: skip

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    facts = dict(folder.query("SELECT name, value FROM fingerprint WHERE run IS NULL"))
    assert facts["PostgreSQL/found by"] == "the embedded servers"
    assert facts["PostgreSQL/version"].startswith("18.")
    assert facts["PostgreSQL/programs"].startswith(f"{folder.work_directories()[0]}/programs/")
    assert [state for _, _, state, _ in folder.runs()] == ["done"] * 6
    folder.assert_nothing_left()
