import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pgtrial.engine.loads.command import CommandLoad, command_of, refuse_missing
from pgtrial.engine.loads.generators import run_generators
from pgtrial.engine.target.base import RunningServer
from pgtrial.errors import PreflightError, SettingError, SpecError, WorkloadError
from pgtrial.experiment_file.workload_table import WorkloadTable
from pgtrial.hosts.local import LocalHost, server_account
from pgtrial.hosts.processes import find_marked
from pgtrial.knobs.slowdown import build_library, generator_environment
from pgtrial.model.arm import Arm, Role
from pgtrial.model.run import LoadLevel
from pgtrial.postgres.connect import execute_script
from pgtrial.postgres.settings import Setting
from pgtrial.store.command_line import LONGEST_WHOLE, LineError, parse_line
from pgtrial.store.command_log import CommandLog, read_command
from pgtrial.workloads.adapters import pgreplay, sysbench
from pgtrial.workloads.base import Generator
from pgtrial.workloads.command import OUTPUT, files_of, plan_command
from support import wait_until
from support.experiments import load_experiment
from support.programs import needs_compiler, needs_program

EXAMPLES = Path(__file__).parents[2] / "examples" / "commands"
SERVER = {"PGHOST": "/run/pg", "PGPORT": "5433", "PGUSER": "me", "PGDATABASE": "shop"}
SECONDS = 1.0
needs_sysbench = needs_program("sysbench", "apt install sysbench", required_by="PGTRIAL_REQUIRE_SYSBENCH")
needs_pgreplay = needs_program("pgreplay", "apt install pgreplay", required_by="PGTRIAL_REQUIRE_PGREPLAY")
needs_psql = needs_program("psql", "apt install postgresql-client")


def plan(workload: WorkloadTable, *, clients: int = 3, rate: float | None = None, **others) -> Generator:
    facts = {"files": {}, "environment": SERVER, "seconds": 21, "directory": "/", "record": None, "seed": "7/1"}
    return plan_command(workload, LoadLevel(index=0, clients=clients, rate=rate), **{**facts, **others})


def command(*words: str, **others: object) -> WorkloadTable:
    return WorkloadTable.model_validate({"kind": "command", "command": list(words), **others})


def test_a_word_of_the_command_may_name_what_is_known():
    workload = command("load", "--of={user}@{host}:{port}/{database}", "{clients}x", "{rate}", "{seconds}s", "{} {X}")

    generator = plan(workload, rate=12.5)

    assert generator.argv_tail[:4] == ("--of=me@/run/pg:5433/shop", "3x", "12.5", "21s")
    assert generator.environment["PGTRIAL_RATE"] == "12.5"
    assert generator.environment["PGAPPNAME"] == "pgtrial/command"
    assert generator.results is not None
    assert generator.results.needs_lag


def test_what_the_connection_does_not_say_cannot_be_named():
    with pytest.raises(WorkloadError, match=r'the command asks for "\{host\}"'):
        plan(command("load", "{host}"), environment={"PGSERVICE": "shop"})


def test_a_block_has_one_seed_and_others_have_others():
    seeds = [plan(command("load"), seed=f"7/{block}").environment["PGTRIAL_SEED"] for block in (1, 1, 2)]

    assert seeds[0] == seeds[1] != seeds[2]
    assert all(0 < int(seed) < 2**31 for seed in seeds)


def test_files_that_cannot_be_read_are_named(tmp_path):
    loaded = load_experiment(EXAMPLES / "experiment.toml")

    assert files_of(loaded.experiment, EXAMPLES) == {"load.py": (EXAMPLES / "load.py").read_text()}
    with pytest.raises(SpecError, match=r'cannot read ".*load.py"'):
        files_of(loaded.experiment, tmp_path)


@pytest.mark.parametrize("name", ["load.py", "load.sh"])
def test_the_documentation_shows_the_examples_as_they_are(name):
    assert (EXAMPLES / name).read_text() in (EXAMPLES.parents[1] / "docs" / "command.md").read_text()


def test_sysbench_is_told_where_the_server_is_and_what_stands_in_front_of_the_script():
    generator = plan(command("sysbench", "oltp_read_write", "--tables=4", results="sysbench"))

    assert generator.argv_tail[:2] == ("./pgtrial-sysbench.lua", "--tables=4")
    assert {"--pgsql-host=/run/pg", "--pgsql-db=shop", "--threads=3", "--time=0"} < {*generator.argv_tail}
    assert generator.argv_tail[-1] == "run"
    assert generator.environment["PGTRIAL_SYSBENCH_SCRIPT"] == "oltp_read_write"
    assert "pgtrial-sysbench.lua" in generator.scripts


@pytest.mark.parametrize(("results", "clients"), [("json", 3), ("hdr", None), ("k6", None), ("pgreplay", None)])
def test_latencies_are_held_against_the_clients_where_the_file_says_how_many_there_are(tmp_path, results, clients):
    host = LocalHost()
    workload = command("load", results=results, clients=3)
    load = CommandLoad(
        account=None, workload=workload, files={}, seed=1, clients=3, here=host, there=host, work=tmp_path, mark="x"
    )
    generator = plan(workload, record=tmp_path / "record")

    (log,) = load.logs(LoadLevel(index=0, clients=3), [generator], window=(0.0, 1.0))

    assert isinstance(log, CommandLog)
    assert log.clients == clients


def test_latencies_are_not_held_against_clients_that_the_file_does_not_say(tmp_path):
    """A program may have as many as it likes then."""
    host = LocalHost()
    workload = command("load")
    load = CommandLoad(
        account=None, workload=workload, files={}, seed=1, clients=8, here=host, there=host, work=tmp_path, mark="x"
    )
    generator = plan(workload, record=tmp_path / "record")

    (log,) = load.logs(LoadLevel(index=0, clients=8), [generator], window=(0.0, 1.0))

    assert isinstance(log, CommandLog)
    assert log.clients is None


def test_what_sysbench_printed_is_read():
    # sysbench 1.0.20 of Debian 12, oltp_read_write with 4 threads for a second, through our script.
    printed = (Path(__file__).parent / "captured" / "sysbench-1.0.20-oltp-read-write.txt").read_text().splitlines()

    told = [parse_line(line) for each in printed if (line := sysbench.translate(each)) is not None]

    assert len(printed) - len(told) >= 8  # what sysbench says of itself
    assert all(each.done == 1 and each.failed == 0 for each in told)
    assert any(each.retries > 0 for each in told)  # a deadlock, after which sysbench began the event again


def test_a_program_that_ends_itself_is_told_a_little_more_than_its_time():
    text = "<terminals>{clients}</terminals><time>{seconds}</time><rate>unlimited</rate>"
    workload = command("benchbase", results="benchbase", files=["a.xml", "b.txt"])

    generator = plan(workload, files={"a.xml": text, "b.txt": "{seconds}"}, seconds=21.0)

    assert generator.scripts["a.xml"] == "<terminals>3</terminals><time>24</time><rate>unlimited</rate>"
    assert generator.scripts["b.txt"] == "{seconds}"
    assert generator.results is not None
    assert generator.results.ends_itself


def test_a_configuration_whose_figures_would_be_wrong_is_named(tmp_path):
    (tmp_path / "a.xml").write_text("<terminals>{clients}</terminals><time>{seconds}</time><rate>100</rate>")
    loaded = load_experiment(EXAMPLES / "experiment.toml").experiment
    table = command("benchbase", results="benchbase", files=["a.xml"])

    with pytest.raises(SpecError, match=r'"a\.xml": <rate> is not unlimited'):
        files_of(loaded.model_copy(update={"workload": table}), tmp_path)


@pytest.mark.parametrize(
    ("names", "what"), [((), "no file"), (("a.raw.csv", "b.raw.csv"), "more than one file")], ids=["none", "two"]
)
def test_a_program_leaves_one_file(tmp_path, names, what):
    generator = plan(command("benchbase", results="benchbase"), directory=str(tmp_path))
    (tmp_path / "results").mkdir()
    for name in names:
        (tmp_path / "results" / name).touch()

    assert generator.results is not None
    assert generator.results.left is not None
    with pytest.raises(LineError, match=f'there is {what} "\\*.raw.csv"'):
        list(generator.results.left())


def test_a_link_is_no_file_that_a_program_has_left(tmp_path):
    generator = plan(command("benchbase", results="benchbase"), directory=str(tmp_path))
    (tmp_path / "a.raw.csv").symlink_to("/etc/hostname")

    assert generator.results is not None
    assert generator.results.left is not None
    with pytest.raises(LineError, match="cannot be read"):
        list(generator.results.left())


def test_what_a_program_has_left_is_not_looked_for_through_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/a.raw.csv").touch()
    (tmp_path / "own").mkdir()
    (tmp_path / "own/results").symlink_to(tmp_path / "elsewhere")
    generator = plan(command("benchbase", results="benchbase"), directory=str(tmp_path / "own"))

    assert generator.results is not None
    assert generator.results.left is not None
    with pytest.raises(LineError, match="there is no file"):
        list(generator.results.left())


def test_a_line_without_an_end_that_a_program_has_left_is_not_read_as_a_whole(tmp_path):
    generator = plan(command("benchbase", results="benchbase"), directory=str(tmp_path))
    with (tmp_path / "a.raw.csv").open("wb") as file:
        file.truncate(1 << 40)  # no machine has the memory

    assert generator.results is not None
    assert generator.results.left is not None
    with pytest.raises(LineError, match="a line has more than 1048576 bytes"):
        list(generator.results.left())


@pytest.fixture
def drive(served, tmp_path, runner):
    """How a command of the examples ends on a server, after a second or a few; its lines are in a record."""

    def run(
        workload: WorkloadTable,
        *,
        files: dict[str, str],
        seconds: float = SECONDS,
        on_second: Callable[[float, float | None], bool] = lambda _tps, _latency: False,
        **variables: str,
    ):
        generator = plan(
            workload,
            clients=2,
            files=files,
            environment=served.environment("postgres"),
            seconds=seconds,
            directory=str(tmp_path),
            record=tmp_path / "record",
        )
        return runner.run(
            run_generators(
                LocalHost(mark=str(tmp_path)),
                [generator],
                environment={**served.environment("postgres"), **variables},
                output=OUTPUT,
                on_second=on_second,
            )
        )

    return run


@pytest.fixture
def work(drive, tmp_path):
    """What a command of the examples does on a server, by its log."""

    def run(workload: WorkloadTable, **others):
        outcome = drive(workload, **others)
        assert outcome.errors == ()
        lines = (tmp_path / "record").read_text().splitlines()
        parsed = [parse_line(line, longest=LONGEST_WHOLE) for line in lines]
        log = CommandLog(
            level=0,
            scenario="command",
            files=(tmp_path / "record",),
            window=(
                min(told.t - told.seconds for told in parsed)
                if workload.results == "pgreplay"
                else outcome.started - 600,
                max(told.t for told in parsed),
            ),
            rate=None,
            longest=LONGEST_WHOLE,
        )
        (summary,) = outcome.summaries
        assert summary.failed == 0
        found = read_command(log)
        assert found.requests == summary.processed
        return found

    return run


@pytest.fixture(scope="module")
def accounts(served):
    setup = (
        "CREATE TABLE IF NOT EXISTS pgbench_branches (bid int); CREATE TABLE IF NOT EXISTS pgbench_accounts (aid int "
    )
    setup += "PRIMARY KEY, abalance int); INSERT INTO pgbench_accounts SELECT n, 0 FROM generate_series(1, 100000) AS n"
    asyncio.run(execute_script(served.conninfo("postgres"), setup, name="setup"))


@needs_psql
@pytest.mark.parametrize("words", [("python3", "load.py"), ("sh", "load.sh")])
def test_the_examples_of_the_documentation_keep_the_contract(work, accounts, words):
    found = work(command(*words), files={words[1]: (EXAMPLES / words[1]).read_text()})

    assert found.requests > 0
    assert all(0 < row.latency_sum < 600 for row in found.rows if row.count)


@needs_psql
@pytest.mark.parametrize("words", [("python3", "load.py"), ("sh", "load.sh"), ("python3", "own_clock.py")])
def test_in_the_examples_a_statement_that_fails_is_a_failure(drive, accounts, tmp_path, words):
    files = {words[1]: (EXAMPLES / words[1]).read_text()}

    outcome = drive(command(*words), files=files, PGOPTIONS="-c search_path=pg_catalog")

    assert outcome.errors == ()
    (summary,) = outcome.summaries
    assert summary.processed == 0
    assert summary.failed > 0
    assert "pgbench_" in summary.said


@pytest.fixture(scope="module")
def tables(served):
    setup = (EXAMPLES / "sysbench" / "setup.sql").read_text()
    asyncio.run(execute_script(served.conninfo("postgres"), setup, name="setup"))


@needs_sysbench
def test_sysbench_tells_of_each_of_its_events(work, tables):
    found = work(
        command("sysbench", "oltp_read_only", "--tables=2", "--table-size=10000", results="sysbench"), files={}
    )

    assert found.requests > 0
    assert all(0 < row.latency_sum < 600 for row in found.rows if row.count)


@needs_sysbench
def test_a_rate_of_sysbench_is_refused_wherever_it_comes_from(drive, tables, tmp_path):
    """A configuration that is none of files, or a program that stands in front of sysbench, is not looked into."""
    configuration = tmp_path / "a.cfg"
    configuration.write_text("rate=100\n")
    configuration.chmod(0o644)
    words = ("oltp_read_only", "--tables=2", "--table-size=10000", f"--config-file={configuration}")

    outcome = drive(command("sysbench", *words, results="sysbench"), files={})

    assert any("a rate of sysbench's own is not seen" in error for error in outcome.errors)


@needs_pgreplay
def test_pgreplay_replays_a_log_with_its_timing(work, served, monkeypatch):
    """Of twenty statements a tenth of a second apart one fails, as it did in the original."""
    monkeypatch.setattr(pgreplay, "_LATE", 3600)  # s: the machine of the test may stand still
    entries = [("connection authorized: user=postgres database=postgres", "LOG")]
    entries += [("statement: SELECT 1", "LOG")] * 18 + [("statement: SELECT 1/0", "LOG"), ("division by zero", "ERROR")]
    entries += [("statement: SELECT 2", "LOG"), ("disconnection: session time: 0:00:02.000", "LOG")]
    lines = [
        f'2026-01-01 10:00:{number / 10:06.3f} UTC,"postgres","postgres",7,"[local]",6b06d898.7,{number},"",'
        f'2026-01-01 10:00:00 UTC,3/4,0,{severity},00000,"{text}",,,,,,,,,"","client backend",,0\n'
        for number, (text, severity) in enumerate(entries)
    ]

    found = work(command("pgreplay", "app.csv", results="pgreplay"), files={"app.csv": "".join(lines)}, seconds=2.0)

    assert found.requests == 19  # without the one that fails, as it should
    assert sum(row.failed for row in found.rows) == 0


@needs_psql
@needs_sysbench
@pytest.mark.parametrize(
    "words", [("python3", "load.py"), ("sysbench", "oltp_read_only", "--tables=2", "--table-size=10000")]
)
def test_a_program_that_stands_still_counts_that_as_latency(work, accounts, tables, tmp_path, words):
    """Why arms with such a command cannot take turns, as the check before the first run finds out."""
    stands_still = 1.5  # s
    stopped: list[int] = []

    def send(number: signal.Signals) -> None:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop_once(tps: float, _latency: float | None) -> bool:
        if tps > 0 and not stopped:
            stopped.extend(each.pid for each in find_marked(str(tmp_path)))
            send(signal.SIGSTOP)
            asyncio.get_running_loop().call_later(stands_still, send, signal.SIGCONT)
        return False

    is_sysbench = words[0] == "sysbench"
    work(
        command(*words, **({"results": "sysbench"} if is_sysbench else {})),
        files={} if is_sysbench else {"load.py": (EXAMPLES / "load.py").read_text()},
        seconds=12.0,  # the first second may be told late, and after it stands still it has to tell of that
        on_second=stop_once,
    )

    told = [parse_line(line) for line in (tmp_path / "record").read_text().splitlines()]
    assert stopped
    assert max(latency for each in told for latency, _ in each.latencies) > 0.9 * stands_still


@pytest.fixture
def open_place():
    """A directory that the account of the load may enter, whose programs may be executed."""
    with tempfile.TemporaryDirectory(prefix="pgtrial-test-") as name:
        place = Path(name)
        place.chmod(0o755)
        yield place


def look_for(place: Path, *words: str, files: Mapping[str, str] | None = None) -> None:
    """The programs of arms, one each."""
    arms = [Arm(name=word, role=Role.CONTROL, knobs={"workload": {"command": json.dumps([word])}}) for word in words]
    asyncio.run(refuse_missing(command("sh"), arms, LocalHost(mark=str(place)), files or {}))


@pytest.mark.parametrize("word", ["sh", "own", "{place}/own", "./added"])
def test_a_program_is_looked_for_by_whom_it_runs_as(open_place, monkeypatch, word):
    closed = open_place / "closed"
    closed.mkdir(mode=0o700)
    (open_place / "own").write_text("#!/bin/sh\n")
    (open_place / "own").chmod(0o755)
    monkeypatch.setenv("PATH", f"{closed}:{open_place}:{os.environ['PATH']}")

    look_for(open_place, word.format(place=open_place), files={"added": "#!/bin/sh\n"})


@pytest.mark.parametrize(
    "name",
    ["no-such-program-at-all", "a-directory", "not-executable", "/nowhere/own", "{place}/not-executable", "./load.py"],
)
def test_a_program_that_is_not_there_is_named(open_place, monkeypatch, name):
    """The error of whatever starts it would be that a directory of PATH is closed to its account."""
    (open_place / "closed").mkdir(mode=0o700)
    (open_place / "a-directory").mkdir()
    (open_place / "not-executable").touch()
    monkeypatch.setenv("PATH", f"{open_place}/closed:{open_place}:{os.environ['PATH']}")

    name = name.format(place=open_place)
    with pytest.raises(PreflightError, match=f"^the program {re.escape(name)} is not found$") as caught:
        look_for(open_place, "sh", name, files={"other.py": ""})  # it is that of one arm alone

    assert ("PATH" in caught.value.hint) == ("/" not in name)
    assert ("nothing but files of [workload]" in caught.value.hint) == (name == "./load.py")


@pytest.mark.parametrize(
    "first",
    [
        "#!/bin/sh -e",
        "#! {place}/own",
        "#!/usr/bin/env own",
        "#!/usr/bin/env -S -i X=1 own -x",
        "#!/usr/bin/env",
        "\x7fELF",
        "echo",
        "",
    ],
)
def test_a_script_whose_interpreter_is_there_is_a_program(open_place, monkeypatch, first):
    (open_place / "own").write_text("#!/bin/sh\n")
    (open_place / "script").write_text(first.format(place=open_place) + "\nprint(1)\n")
    for name in ("own", "script"):
        (open_place / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{open_place}:{os.environ['PATH']}")

    look_for(open_place, "script", str(open_place / "script"))
    look_for(open_place, "./own.py", files={"own.py": first.format(place=open_place)})


@pytest.mark.parametrize(
    ("first", "interpreter"),
    [
        ("#!{place}/closed/python", "{place}/closed/python"),
        ("#!/nowhere/python -u", "/nowhere/python"),
        ("#!/bin/sh\r", "/bin/sh\\r"),
        ("#!/usr/bin/env no-such-program-at-all", "no-such-program-at-all"),
        ("#!/usr/bin/env -S X=1 no-such-program-at-all -u", "no-such-program-at-all"),
        ("#!{place}/broken", "/nowhere/sh"),
    ],
)
@pytest.mark.parametrize("is_file", [False, True])
def test_a_script_whose_interpreter_cannot_be_started_is_refused(open_place, monkeypatch, first, interpreter, is_file):
    """The error of whatever starts it would be that the script is not there."""
    if server_account() is None and "closed" in first:
        pytest.skip("nothing is closed to who owns it")
    (open_place / "closed").mkdir()
    (open_place / "closed" / "python").write_text("#!/bin/sh\n")
    (open_place / "closed" / "python").chmod(0o755)
    (open_place / "closed").chmod(0o700)
    (open_place / "broken").write_text("#!/nowhere/sh\n")
    (open_place / "script").write_text(first.format(place=open_place) + "\n")
    for name in ("broken", "script"):
        (open_place / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{open_place}:{os.environ['PATH']}")

    word = "./own.py" if is_file else "script"
    said = re.escape(f"the program {word} cannot be started: its interpreter {interpreter.format(place=open_place)}")
    with pytest.raises(PreflightError, match=f"^{said} is not found$") as caught:
        look_for(open_place, "sh", word, files={"own.py": first.format(place=open_place) + "\n"})

    assert 'begins with "#!"' in caught.value.hint


def test_an_arm_runs_the_program_that_it_names(tmp_path, runner):
    """And not that of the load with the arguments of the arm."""
    arm = Arm(
        name="new",
        role=Role.CONTROL,
        knobs={"workload": {"command": json.dumps(["sh", "-c", "echo of the arm >&2; exit 3"])}},
    )
    workload = command_of(command("false"), arm)

    outcome = runner.run(
        run_generators(
            LocalHost(mark=str(tmp_path)),
            [plan(workload, directory=str(tmp_path))],
            environment={},
            output=OUTPUT,
        )
    )

    assert outcome.errors == ("command: of the arm",)


@pytest.fixture
def try_out(open_place):
    """``try_out(script, environment)``: what the trial before the first run does with a program, a shell's."""

    def try_out(script: str, environment: Mapping[str, str]) -> None:
        host = LocalHost(mark=str(open_place))
        load = CommandLoad(
            account=server_account(),
            workload=command("sh", "-c", script),
            files={},
            seed=1,
            clients=1,
            here=host,
            there=host,
            work=open_place,
            mark=str(open_place),
        )
        most = Setting(
            name="max_connections", value="9", unit="", vartype="integer", source="", source_file="", shown="9"
        )
        server = RunningServer(
            settings={most.name: most},
            changes=(),
            version="16.2",
            version_num=160000,
            database="x",
            control="",
            conninfo=lambda database: database,
            environment={**SERVER, **environment},
            directories=(),
            groups=(),
            confirmed=frozenset(),
        )
        asyncio.run(load.try_out(Arm(name="a", role=Role.CONTROL), server))

    return try_out


def test_a_program_that_leaves_another_with_its_output_is_told_with_their_number(try_out, open_place):
    """It says no less than of one that has given its output away."""
    tell = '{"t": \'$(date +%s.%N)\', "latency": 0.001}'

    with pytest.raises(WorkloadError, match="holds its output open; it leaves 1 of its processes running"):
        try_out(f"setsid sleep 600 & while sleep 0.2; do echo '{tell}'; done", {})

    assert find_marked(str(open_place)) == ()


@needs_compiler
@pytest.mark.parametrize(("child", "is_loaded"), [("sleep 60", True), ("./static", False)])
def test_a_program_that_has_its_work_done_by_one_that_cannot_be_slowed_down_is_refused(
    try_out, open_place, child, is_loaded
):
    """A shell has the library, and what it starts may not."""
    host, mark = LocalHost(mark=str(open_place)), str(open_place)
    library = asyncio.run(build_library(host, open_place))
    source = open_place / "static.c"
    source.write_text("void _start(void) { for (;;) ; }")
    subprocess.run(["cc", "-nostdlib", "-static", "-o", open_place / "static", source], check=True, timeout=60)
    tell = '{"t": \'$(date +%s.%N)\', "latency": 0.001}'
    script = f"cd {open_place}; {child} & while sleep 0.2; do echo '{tell}'; done"
    with contextlib.nullcontext() if is_loaded else pytest.raises(SettingError, match='varied: "static" does not load'):
        try_out(script, generator_environment({"generator": "1.5"}, library, host))

    wait_until(lambda: find_marked(mark) == ())
