import json
import os
import re
import shutil
from contextlib import closing
from pathlib import Path

import duckdb

from pgtrial.model.histogram import bucket_value
from pgtrial.store import layout
from pgtrial.store.state import State

STATUS = {"supported": 0, "refuted": 3, "inconclusive": 4, "invalid": 5}


def read_findings(folder: Path):
    return json.loads((folder / "findings.json").read_text())


def shape(value):
    """The structure of a JSON document: keys and types, a list by its first element; numbers are alike.

    So are messages: which values a sentence names depends on the numbers.
    """
    if isinstance(value, dict) and value.keys() >= {"code", "values", "units", "text"}:
        return "message"
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def differences(one, other, path=""):
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differences(one.get(key, "absent"), other.get(key, "absent"), f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list):
        for first, second in zip(one, other, strict=False):
            yield from differences(first, second, f"{path}[]")
    elif one != other and "NoneType" not in (one, other):
        yield path


def test_hypothesis_file_becomes_verdict_report_and_data(finished):
    folder, result = finished.folder, finished.result

    assert "Traceback" not in finished.watched.text
    assert f"report: {folder.relative_to(folder.parents[1])}/report.html" in result.stdout
    findings = read_findings(folder)
    assert [run["state"] for run in findings["runs"]] == ["done"] * 6
    assert findings["hypothesis"]["verdict"] in ("supported", "inconclusive", "refuted")
    assert findings["hypothesis"]["reason"]["text"] in " ".join(result.stdout.split())
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
            "statements.parquet",
            "server.jsonl",
        }


def test_assert_gives_the_verdict_as_exit_status(finished):
    expected = STATUS[read_findings(finished.folder)["hypothesis"]["verdict"]]

    assert finished.result.returncode == expected


def test_assert_of_a_claim_that_does_not_hold_is_no_success(place, copied):
    with closing(State.open(copied, write=True)) as state:
        state.set_meta(plan=state.meta()["plan"].replace('"expect":"better"', '"expect":"worse"'))

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


def test_folder_that_may_only_be_read_is_understood(place, copied):
    for path in (*copied.rglob("*"), copied):
        path.chmod(path.stat().st_mode & 0o555 | 0o444)
    page = place.directory / "page.html"
    # Root may write everywhere, unless it gives up that right.
    ordinary = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()

    status = place.run("status", str(copied), prefix=ordinary)
    written = place.run("report", str(copied), "--output", str(page), prefix=ordinary)
    refused = place.run("report", str(copied), prefix=ordinary)

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


def test_the_same_experiment_through_ssh_gives_the_same_findings(finished, new_place, sshd):
    place = new_place("ssh")
    text = (finished.place.directory / "small.toml").read_text().replace("blocks = 3", "blocks = 2")
    shutil.copy(finished.place.directory / "known.sql", place.directory)
    target = f'[target]\nhost = "{sshd.address}"\n'
    (place.directory / "small.toml").write_text(
        text.replace("[target]\n", target) if "[target]" in text else text + target
    )
    result = place.run("run", "small.toml", environment={"PGTRIAL_SSH": sshd.ssh()})

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    local, remote = (read_findings(path) for path in (finished.folder, folder.path))
    # What depends on the numbers: caveats, and facts that one way of reading has and the other has not.
    varying = (".caveats", ".fingerprint", ".runs[].caveats", ".quality")
    assert [path for path in differences(shape(local), shape(remote)) if not path.startswith(varying)] == []
    assert [run["state"] for run in remote["runs"]] == ["done"] * 4
    assert len(folder.query("SELECT 1 FROM event WHERE kind = 'clock'")) == 4
    folder.assert_nothing_left()
