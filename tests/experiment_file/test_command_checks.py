from pathlib import Path
from typing import get_args

import pytest

from pgtrial.design.plan import make_plan
from pgtrial.errors import SpecError, SpecProblem
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.code_uses import find_code_uses
from pgtrial.experiment_file.load import examine, parse_experiment
from pgtrial.experiment_file.reach import files_in, find_outside
from pgtrial.experiment_file.result_formats import FORMATS, FormatName
from pgtrial.workloads.adapters import ADAPTERS

HEAD = 'format = 1\n[experiment]\nname = "x"\n'
ARMS = '[arms.a.postgresql]\nwork_mem = "1MB"\n[arms.b.postgresql]\nwork_mem = "2MB"\n'
LOAD = '[workload]\nkind = "command"\ncommand = ["python3", "load.py"]\n'
SYSBENCH = '[workload]\nkind = "command"\nresults = "sysbench"\ncommand = ["sysbench", "oltp_read_write"]\n'


def results(name: str) -> str:
    return LOAD + f'results = "{name}"\n'


SHOP = '[dataset]\nkind = "existing"\n[target]\nkind = "server"\ndatabase = "shop"\n'


def find(text: str, folder: Path | None = None) -> dict[str, SpecProblem]:
    found = examine(HEAD + text + ARMS, folder).problems
    return {problem.path: problem for problem in found}


@pytest.mark.parametrize(
    "text",
    [
        LOAD,
        LOAD + 'files = "load.py"\nclients = [1, 8]\nrate = 50\nwarmup = "3s"\n',
        LOAD.replace("load.py", "{host}:{port} {user} {database} {clients} {rate} {seconds} {seed} {} {A}"),
        LOAD + '[hypothesis]\nmetric = "pgbench.latency_p99"\n',
        LOAD + '[hypothesis]\nmetric = "waits.IO"\n',
        LOAD + '[dataset]\nkind = "pgbench"\nscale = 3\n',
        LOAD + SHOP + "writes = true\n",
        LOAD + SHOP + 'settings = "role"\n',
        SYSBENCH,
        results("go-tpc") + SHOP + 'writes = true\n[hypothesis]\nmetric = "pgbench.latency_mean"\n',
        results("hammerdb") + '[hypothesis]\nmetric = "pgbench.tps"\n',
        results("k6") + '[hypothesis]\nmetric = "pgbench.latency_p99"\n',
    ],
)
def test_what_is_right_is_not_refused(text: str) -> None:
    assert find(text) == {}


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (LOAD.replace('command = ["python3", "load.py"]\n', ""), "workload", "the workload has no command"),
        (LOAD.replace('["python3", "load.py"]', '"python3 load.py"'), "workload.command", "expected a list"),
        (LOAD.replace("load.py", "{client}"), "workload.command[1]", '"{client}" in the command stands for nothing'),
        (LOAD + 'mix = "oltp"\n', "workload.mix", '"mix" has no meaning with kind = "command"'),
        (LOAD + 'protocol = "prepared"\n', "workload.protocol", '"protocol" has no meaning with kind = "command"'),
        (LOAD + 'latency_limit = "1s"\n', "workload.latency_limit", "has no meaning"),
        (LOAD + "max_tries = 3\n", "workload.max_tries", "has no meaning"),
        (LOAD + 'files = ["a/x.py", "b/x.py"]\n', "workload.files[1]", 'two files are called "x.py"'),
        (LOAD + '[target]\nkind = "host"\n', "target.kind", 'kind = "host" has no server, and a command needs one'),
        (LOAD + '[hypothesis]\nmetric = "fio.iops"\n', "hypothesis.metric", 'is not of kind "command"'),
        (LOAD + SHOP, "workload.command", 'nothing keeps a program from writing to the database "shop"'),
        (LOAD + SHOP + 'settings = "server"\n', "workload.command", "nothing keeps a program from writing"),
        (SYSBENCH + "rate = 5\n", "workload.rate", "sysbench does not say when a request was due"),
        (results("k6") + "rate = 5\n", "workload.rate", "k6 has the rate that its script says"),
        (results("hdr") + "rate = 5\n", "workload.rate", "does not say when its requests were due"),
        (
            results("hammerdb") + '[hypothesis]\nmetric = "pgbench.latency_mean"\n',
            "hypothesis.metric",
            '"pgbench.latency_mean" cannot be had from results = "hammerdb": it tells no latency',
        ),
        (
            results("go-tpc") + '[hypothesis]\nmetric = "pgbench.latency_p99"\n',
            "hypothesis.metric",
            "it tells only the mean of its latencies",
        ),
        (
            results("go-tpc") + '[[hypothesis.and]]\nmetric = "pgbench.latency_p99"\n',
            "hypothesis.and[0].metric",
            "it tells only the mean of its latencies",
        ),
        (
            results("pgreplay") + '[[criteria]]\nmetric = "stability.lowest"\n',
            "criteria[0].metric",
            "it tells all at its end, and nothing of any one second",
        ),
        (results("benchbase"), "workload.results", "BenchBase cannot reach a throw-away server, which has no port"),
        (results("go-tpc"), "workload.results", "go-tpc cannot reach a throw-away server, which has no port"),
        (
            results("go-tpc") + SHOP + 'connection = "host=/run/postgresql"\n',
            "target.connection",
            "go-tpc cannot reach a server by a Unix socket, as the connection does",
        ),
        (
            results("benchbase") + SHOP + 'connection = "postgresql://me@%2Frun/shop"\n',
            "target.connection",
            "BenchBase cannot reach a server by a Unix socket, as the connection does",
        ),
        (results("jmeter"), "workload.results", "jmeter"),
        (SYSBENCH.replace("oltp_read_write", "--tables=4"), "workload.command", "names no script behind the program"),
        (SYSBENCH.replace(', "oltp_read_write"', ""), "workload.command", "names no script behind the program"),
        (
            SYSBENCH.replace('"oltp_read_write"', '"oltp_read_write", "--rate=40"'),
            "workload.command",
            "a rate of sysbench's own is not seen",
        ),
        (
            SYSBENCH + '[arms.c.workload]\ncommand = ["sysbench", "oltp_read_write", "--rate=40"]\n',
            "arms.c.workload.command",
            "a rate of sysbench's own is not seen",
        ),
        (
            SYSBENCH + '[arms.c.workload]\ncommand = ["sysbench", "--tables=2"]\n',
            "arms.c.workload.command",
            "names no script behind the program",
        ),
        (
            results("benchbase") + SHOP + "writes = true\n",
            "workload.command",
            "the command names no configuration that is one of files",
        ),
        (
            results("benchbase").replace("load.py", "/srv/tpcc.xml")
            + 'files = "tpcc.xml"\n'
            + SHOP
            + "writes = true\n",
            "workload.command",
            "the command names no configuration that is one of files",
        ),
        ('[workload]\nmix = "oltp"\ncommand = ["x"]\n', "workload.command", 'no meaning with kind = "pgbench"'),
        ('[workload]\nmix = "oltp"\nresults = "json"\n', "workload.results", 'no meaning with kind = "pgbench"'),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(text: str, path: str, message: str) -> None:
    assert message in find(text)[path].message


@pytest.mark.parametrize(
    ("command", "script", "is_right"),
    [
        ('["k6", "run", "load.js"]', "export const options = {vus: 8}", False),
        ('["k6", "run", "load.js"]', "const vus = Number(__ENV.PGTRIAL_CLIENTS)", True),
        ('["k6", "run", "-e", "VUS={clients}", "load.js"]', "export const options = {vus: __ENV.VUS}", True),
        ('["k6", "run", "--vus", "{clients}", "load.js"]', "", True),
    ],
)
def test_clients_of_which_nothing_tells_a_program_with_its_own_are_refused(
    tmp_path: Path, command: str, script: str, is_right: bool
) -> None:
    """A sweep would measure the same load at each level."""
    (tmp_path / "load.js").write_text(f"{script}\n")
    text = f'[workload]\nkind = "command"\nresults = "k6"\ncommand = {command}\nfiles = "load.js"\n'
    levels, own = "clients = [1, 8, 64]\n", "clients = 8\n[arms.c.workload]\nclients = 3\n"

    for more, path in ((levels, "workload.clients"), (own, "arms.c.workload.clients")):
        found = find(text + more, tmp_path)
        assert list(found) == ([] if is_right else [path])
        if not is_right:
            assert found[path].message == "k6 has the clients of its script, and nothing tells it of these"
    assert find(text + "clients = 8\n", tmp_path) == {}


def test_of_a_script_that_is_not_read_it_is_said_how_it_gets_its_clients(tmp_path: Path) -> None:
    """Only files of the load are looked into, so one that is named with its whole path is told by the command."""
    (tmp_path / "load.js").write_text("const vus = Number(__ENV.PGTRIAL_CLIENTS)\n")
    text = f'[workload]\nkind = "command"\nresults = "k6"\ncommand = ["k6", "run", "{tmp_path}/load.js"]\n'

    hint = find(text + "clients = [1, 8]\n", tmp_path)["workload.clients"].hint

    told = '"-e", "PGTRIAL_CLIENTS={clients}"'
    assert f'"{tmp_path}/load.js" is not one of files, and is not looked into' in hint
    assert told in hint
    assert find(text.replace('"run"', f'"run", {told}') + "clients = [1, 8]\n", tmp_path) == {}


@pytest.mark.parametrize(
    "load",
    [
        'results = "pgreplay"\ncommand = ["pgreplay", "app.csv"]\n',
        'results = "pgreplay"\ncommand = ["pgreplay", "-j", "{clients}", "app.csv"]\n',
        'command = ["pgtrial", "replay", "app.csv"]\n',
        'command = ["/opt/pgtrial/bin/pgtrial", "replay", "--database={clients}", "app.csv"]\n',
        'command = ["python3", "-m", "pgtrial", "replay", "app.csv"]\n',
        'command = ["env", "-u", "PGHOSTADDR", "pgtrial", "replay", "app.csv"]\n',
        'command = ["nice", "-n", "5", "pgtrial", "--language", "ru", "replay", "app.csv"]\n',
        'command = ["sh", "-c", "exec /opt/pgtrial/bin/pgtrial replay app.csv; true"]\n',
        'command = ["pgtrial", "--no-color", "replay", "app.csv"]\n',
    ],
)
def test_a_replay_has_the_sessions_and_the_rate_of_its_log(tmp_path: Path, load: str) -> None:
    """No word of the command and no statement of the log changes that."""
    (tmp_path / "app.csv").write_text("SELECT 'PGTRIAL_CLIENTS {clients}'\n")
    text = f'[workload]\nkind = "command"\nfiles = "app.csv"\nwarmup = 0\n{load}'
    levels, own = "clients = [2, 4]\n", "clients = 2\n[arms.c.workload]\nclients = 3\n"

    for more, path in ((levels, "workload.clients"), (own, "arms.c.workload.clients")):
        found = find(text + more, tmp_path)
        assert list(found) == [path]
        assert found[path].message == "a replay has the sessions of its log, and clients do not change them"
        assert "the number of the log's sessions" in found[path].hint
    assert find(text + "clients = 2\n", tmp_path) == {}
    assert "a replay has the rate of its log" in find(text + "rate = 50\n", tmp_path)["workload.rate"].message
    assert "at the times of its log" in find(text + "[limits]\nprove = true\n", tmp_path)["limits.prove"].message


@pytest.mark.parametrize(
    "words", ['"pgtrial", "check", "replay"', '"sh", "-c", "my-pgtrial replay"', '"pgtrial", "replayed"']
)
def test_what_is_called_in_a_like_manner_is_no_replay(words: str) -> None:
    load = LOAD.replace('"python3", "load.py"', words)

    assert find(load + "clients = 2\n") == {}


@pytest.mark.parametrize(
    "load", [results("pgreplay"), LOAD.replace('"python3", "load.py"', '"pgtrial", "replay", "a.csv"')]
)
@pytest.mark.parametrize(
    ("warmup", "is_right"),
    [
        ("", False),
        ('warmup = "auto"\n', False),
        ('warmup = { cap = "9s" }\n', False),
        ("warmup = 0\n", True),
        ('warmup = "3s"\n', True),
    ],
)
def test_a_replay_is_not_warmed_up_until_it_is_steady(load: str, warmup: str, is_right: bool) -> None:
    """Its throughput is that of its log, and what the beginning of it writes would be written twice."""
    found = find(load + warmup)

    assert list(found) == ([] if is_right else ["workload.warmup" if warmup else "workload"])
    for problem in found.values():
        assert problem.message == "a replay has the throughput of its log, which need not get steady"
        assert "warmup = 0" in problem.hint


def test_an_arm_that_replays_has_no_clients_of_its_own_either() -> None:
    replay = '[arms.c.workload]\ncommand = ["pgtrial", "replay", "app.csv"]\n'

    found = find(LOAD + "clients = [2, 4]\nwarmup = 0\n" + replay)

    assert found["workload.clients"].message == "a replay has the sessions of its log, and clients do not change them"


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    found = find(LOAD + 'files = "load.py"\n', tmp_path)

    assert "does not exist" in found["workload.files[0]"].message


def test_a_file_that_is_too_large_is_an_error_before_anything_is_started(tmp_path: Path) -> None:
    with (tmp_path / "app.csv").open("wb") as file:
        file.truncate((16 << 20) + 1)

    assert "has more than 16 MB" in find(LOAD + 'files = "app.csv"\n', tmp_path)["workload.files[0]"].message


def test_files_lie_beneath_the_directory_of_the_experiment(tmp_path: Path) -> None:
    loaded = parse_experiment(HEAD + LOAD + 'files = "/etc/hostname"\n' + ARMS, "x", tmp_path)

    (problem,) = find_outside(files_in(loaded.experiment), tmp_path)

    assert problem.path == "workload.files[0]"


def test_the_command_is_code_that_is_executed() -> None:
    experiment = parse_experiment(HEAD + LOAD + ARMS, "x", Path("/")).experiment

    (use,) = find_code_uses(experiment, resolve_arms(experiment), {})

    assert (use.where, use.what) == ("workload.command", "the command python3 load.py")


@pytest.mark.parametrize("method", ["duet", "switchback"])
def test_what_is_not_put_together_by_turns_is_refused_with_the_reason(method: str) -> None:
    experiment = parse_experiment(f'{HEAD}{LOAD}{ARMS}[design]\nmethod = "{method}"\n', "x", Path("/")).experiment

    with pytest.raises(SpecError, match="is put together by turns only"):
        make_plan(experiment, None)


@pytest.mark.parametrize("results", ["hdr", "openmetrics"])
def test_turns_of_results_that_do_not_tell_of_each_request_are_refused(results: str) -> None:
    text = f'{HEAD}{LOAD}results = "{results}"\n{ARMS}[design]\nmethod = "interleaved"\n'
    experiment = parse_experiment(text, "x", Path("/")).experiment

    with pytest.raises(SpecError, match="do not say when each request ended"):
        make_plan(experiment, None)


def test_a_replay_takes_no_turns_for_it_catches_up_what_was_due_while_it_stood_still() -> None:
    replay = LOAD.replace('["python3", "load.py"]', '["pgtrial", "replay", "app.csv"]')
    text = f"{HEAD}{replay}warmup = 0\n{ARMS}[design]\n"

    with pytest.raises(SpecError, match="a replay goes by the times of its log"):
        make_plan(parse_experiment(f'{text}method = "interleaved"\n', "x", Path("/")).experiment, None)
    plan = make_plan(parse_experiment(f'{text}method = "auto"\n', "x", Path("/")).experiment, None)
    assert not next(one for one in plan.judgements if one.method == "interleaved").valid


@pytest.mark.parametrize("method", ["interleaved", "auto"])
def test_turns_are_planned_with_the_check_that_they_depend_on(method: str) -> None:
    text = f'{HEAD}{LOAD}{ARMS}[design]\nmethod = "{method}"\n'
    plan = make_plan(parse_experiment(text, "x", Path("/")).experiment, None)

    judgement = next(one for one in plan.judgements if one.method == "interleaved")
    assert judgement.valid
    assert any("before the first run it is stopped (SIGSTOP)" in warning for warning in judgement.warnings)


def test_every_format_is_known_to_the_checks_and_to_the_load() -> None:
    assert tuple(FORMATS) == get_args(FormatName) == tuple(adapter.name for adapter in ADAPTERS)
