"""A load by a program of the user's choice, from the file to the verdict."""

import json
from pathlib import Path

import duckdb
import pytest

from pgtrial.hosts.processes import find_marked
from support.programs import needs_program

pytestmark = needs_program("psql", "apt install postgresql-client")

# The server itself waits for 5 or 20 ms, so that the effect is known and the processors stay free.
TEXT = """\
format = 1
[experiment]
name = "command"
[hypothesis]
arm = "quick"
metric = "pgbench.latency_mean"
expect = "better"
[dataset]
kind = "sql"
setup = "setup.sql"
[workload]
kind = "command"
command = ["sh", "load.sh"]
files = "load.sh"
clients = 1
duration = "2s"
warmup = "1s"
[arms.slow.postgresql]
"my.wait" = "0.02"
[arms.quick.postgresql]
"my.wait" = "0.005"
[design]
blocks = 1
repeats = 9
seed = 3
"""
# psql repeats a statement in one session and tells how long each took, in ms.
LOAD = """\
{
    printf '%s\\n' '\\timing on'
    while :; do echo "SELECT pg_sleep(current_setting('my.wait')::float) IS NULL;"; done
} |
psql -qAtX | while read -r word value rest; do
    if [ "$word" = Time: ]; then
        echo "{\\"t\\": $(date +%s.%N), \\"seconds\\": 0, \\"latencies\\": {\\"${value}e-3\\": 1}}"
    fi
done
"""


def write(folder: Path, load: str) -> None:
    (folder / "small.toml").write_text(TEXT)
    (folder / "setup.sql").write_text("CREATE TABLE nothing (id int);\n")
    (folder / "load.sh").write_text(load)


@pytest.fixture(scope="module")
def place(new_place):
    place = new_place("command")
    write(place.directory, LOAD)
    return place


@pytest.fixture(scope="module")
def folder(place) -> Path:
    result = place.run("run", "small.toml", "--allow-code")
    assert result.returncode == 0, result.stderr
    (folder,) = (place.directory / "results").iterdir()
    return folder


def measured(folder: Path) -> list[Path]:
    """The folders of runs that were not invalid, as on a machine that stood still."""
    return [path.parent for path in (folder / "runs").glob("*/transactions.parquet")]


def test_without_consent_nothing_is_started(place):
    result = place.run("run", "small.toml")

    assert result.returncode != 0
    assert "workload.command: the command sh load.sh" in result.stderr


def test_a_run_has_the_requests_that_the_program_told(folder):
    findings = json.loads((folder / "findings.json").read_text())

    latencies = {
        each["arm"]: each["value"]
        for each in findings["observations"]
        if each["metric"] == "pgbench.latency_mean" and each["load_level"] == "all"
    }
    assert sorted(run["arm"] for run in findings["runs"] if run["state"] == "done") == ["quick", "slow"]
    assert latencies["slow"] >= 0.02
    assert latencies["quick"] >= 0.005
    assert findings["experiment"]["workload"]["kind"] == "command"
    for run in measured(folder):
        rows = duckdb.sql(
            f"SELECT sum(count), sum(list_sum(bucket_counts)), sum(failed) FROM '{run}/transactions.parquet'"
        ).fetchall()
        assert rows[0][0] == rows[0][1] > 0
        assert rows[0][2] == 0
        assert not (run / "recorded").exists()


def test_the_sampled_sessions_are_those_of_the_load(folder):
    for run in measured(folder):
        names = duckdb.sql(f"SELECT DISTINCT application FROM '{run}/waits.parquet'").fetchall()
        assert ("pgtrial/command",) in names


def test_nothing_of_it_is_left(folder):
    assert find_marked(str(folder)) == ()
    assert (folder / "files" / "command" / "load.sh").read_text() == LOAD


@pytest.mark.parametrize("hidden", ["setsid sleep 600", "setsid env -i /bin/sleep 600"], ids=["session", "environment"])
def test_a_program_that_hides_a_process_is_found_out(hidden, new_place):
    place = new_place("hidden")
    write(place.directory, f"{hidden} >/dev/null 2>&1 &\n{LOAD}")

    result = place.run("run", "small.toml", "--allow-code")

    assert result.returncode == 1
    assert "the command leaves 1 of its processes running" in result.stderr


def test_a_program_that_fails_does_so_before_anything_is_measured(new_place):
    place = new_place("failing")
    write(place.directory, "echo no such table >&2; exit 3\n")

    result = place.run("run", "small.toml", "--allow-code")

    assert result.returncode == 1
    assert "the command fails: no such table" in result.stderr
    assert not list((place.directory / "results").iterdir())


def test_the_trial_of_a_program_is_at_its_rate(new_place):
    place = new_place("rated")
    write(place.directory, "echo asked for $PGTRIAL_RATE in a second >&2; exit 3\n")
    file = place.directory / "small.toml"
    file.write_text(file.read_text().replace("clients = 1\n", "clients = 1\nrate = 20\n"))

    result = place.run("run", "small.toml", "--allow-code")

    assert "the command fails: asked for 20 in a second" in result.stderr


TURNS = """\
format = 1
[experiment]
name = "turns"
[dataset]
scale = 1
[workload]
kind = "command"
command = ["python3", "{program}"]
files = "{program}"
clients = 2
duration = "2s"
warmup = "1s"
[arms.one.postgresql]
work_mem = "4MB"
[arms.two.postgresql]
work_mem = "5MB"
[design]
method = "interleaved"
blocks = 1
repeats = 9
"""
EXAMPLES = Path(__file__).parents[2] / "examples" / "commands"


def run_turns(place, program):
    if not (place.directory / program).exists():
        (place.directory / program).write_text((EXAMPLES / program).read_text())
    (place.directory / "turns.toml").write_text(TURNS.format(program=program))
    plan = place.call("plan", "turns.toml")
    assert "before the first run it is stopped (SIGSTOP)" in " ".join(plan.stdout.split())
    result = place.run("run", "turns.toml", "--allow-code")
    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    meta = dict(folder.query("SELECT key, value FROM meta"))
    (found,) = json.loads(meta["standstill"])
    findings = json.loads((folder.path / "findings.json").read_text())
    return folder, found, findings["experiment"]


def test_a_program_that_counts_all_of_its_standstill_has_it_taken_out(new_place):
    for number in range(6):  # on a busy machine requests take half a second anyway, now and then
        folder, found, told = run_turns(new_place(f"counts-{number}"), "load.py")
        if found["found"] == "counted":
            break

    assert found["found"] == "counted"
    assert found["longest"] >= 0.9
    assert told["method"] == "interleaved"
    assert "counts all of the time in which it stands still" in json.dumps(told["method_reason"])
    # Two clients that are nearly always at work: their requests took about twice the 4 s of both runs (Little's law).
    ((in_flight,),) = duckdb.sql(
        f"SELECT sum(latency_sum) / 4 FROM '{folder.path}/runs/*/transactions.parquet'"
    ).fetchall()
    assert in_flight == pytest.approx(2.0, abs=0.4)
    folder.assert_nothing_left()


PARTLY = """\
# As load.py, but every other request is timed by a clock that stands still with the program.
import json, threading, time
def work():
    number = 0
    while True:
        number += 1
        begun = time.time()
        time.sleep(0.02)
        latency = 0.02 if number % 2 else time.time() - begun
        print(json.dumps({"t": time.time(), "latency": latency}), flush=True)
threading.Thread(target=work).start()
threading.Thread(target=work).start()
"""


def test_a_program_that_counts_some_of_its_standstill_runs_in_blocks(new_place):
    for number in range(6):  # at three stops it may be the same kind of request each time
        place = new_place(f"partly-{number}")
        (place.directory / "partly.py").write_text(PARTLY)
        folder, found, told = run_turns(place, "partly.py")
        if found["found"] == "partly-counted":
            break

    assert found["found"] == "partly-counted"
    assert told["method"] == "blocks"
    assert "counts some of the time in which it stands still as latency" in json.dumps(told["method_reason"])
    assert not list(folder.path.glob("runs/*/slices.parquet"))
    folder.assert_nothing_left()


def test_a_program_that_does_not_count_its_standstill_takes_turns(new_place):
    for number in range(3):
        folder, found, told = run_turns(new_place(f"own-clock-{number}"), "own_clock.py")
        if found["found"] != "unknown":  # as where a busy machine made each request take half a second
            break

    assert found["found"] == "not-counted"
    assert told["method"] == "interleaved"
    assert "does not count the time in which it stands still" in json.dumps(told["method_reason"])
    slices = duckdb.sql(f"SELECT slice, sum(count) FROM '{folder.path}/runs/*/slices.parquet' GROUP BY 1").fetchall()
    assert len(slices) >= 4
    assert all(count > 0 for _, count in slices)
    folder.assert_nothing_left()
