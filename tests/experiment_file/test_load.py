from collections.abc import Sequence
from pathlib import Path

import pytest

from pgtrial.errors import SpecError, SpecProblem
from pgtrial.experiment_file.hypothesis_table import Expect
from pgtrial.experiment_file.load import examine, locate_problems, parse_experiment
from pgtrial.experiment_file.workload_table import RampTable, WarmupTable
from support.experiments import load_experiment

GOOD = """\
format = 1
[experiment]
name = "small"
[workload]
mix = "olap"
clients = [5, 7]
[arms.a.postgresql]
shared_buffers = "1GB"
[arms.b.postgresql]
shared_buffers = "2GB"
"""


def problems_of(text: str, folder: Path = Path("/nowhere")) -> dict[str, SpecProblem]:
    return {problem.path: problem for problem in examine(text, folder).problems}


def change(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_good_file_gives_the_experiment_with_its_text() -> None:
    loaded = parse_experiment(GOOD, "small.toml", Path("/folder"))

    assert loaded.text == GOOD
    assert loaded.folder == Path("/folder")
    assert loaded.experiment.workload.clients == (5, 7)
    assert list(loaded.experiment.arms) == ["a", "b"]
    assert loaded.experiment.hypothesis.expect is Expect.DIFFERENT


def test_units_and_forms_are_read() -> None:
    text = change(
        "clients = [5, 7]",
        'clients = { ramp = "linear", from = 3, to = 9, levels = 3 }\n'
        'duration = "10min"\nwarmup = { cap = "90s" }\nrate = 12.5\nlatency_limit = "200ms"',
    )
    workload = parse_experiment(text + '[hypothesis]\nmargin = "3%"', "", Path("/")).experiment.workload

    assert isinstance(workload.clients, RampTable)
    assert workload.clients.expand() == (3, 6, 9)
    assert workload.duration == 600
    assert workload.warmup == WarmupTable(cap=90)
    assert workload.latency_limit == pytest.approx(0.2)


@pytest.mark.parametrize(("value", "expected"), [('"auto"', "auto"), ("0", 0.0), ('"0s"', 0.0), ('"1min"', 60.0)])
def test_a_warm_up_can_be_auto_or_a_time_or_none(value: str, expected: object) -> None:
    text = change("clients = [5, 7]", f"warmup = {value}")

    assert parse_experiment(text, "", Path("/")).experiment.workload.warmup == expected


def test_a_major_version_may_be_a_number() -> None:
    assert parse_experiment(GOOD + "[target]\npostgres = 16\n", "", Path("/")).experiment.target.postgres == "16"


def test_all_errors_come_at_once_in_the_order_of_their_lines() -> None:
    text = """\
format = 1
[experiment]
name = "a b"
[hypothesis]
arm = "smal"
metric = "tps"
expect = "notworse"
[workload]
mix = "olp"
duratoin = "10min"
clients = [5, 0]
[arms.big.postgresql]
port = 5433
[arms.small]
inherit = "bgi"
[desing]
seed = 1
"""
    with pytest.raises(SpecError) as caught:
        parse_experiment(text, "x.toml", Path("/nowhere"))

    assert [(problem.line, problem.path) for problem in caught.value.problems] == [
        (3, "experiment.name"),
        (5, "hypothesis.arm"),
        (6, "hypothesis.metric"),
        (7, "hypothesis.expect"),
        (9, "workload.mix"),
        (10, "workload.duratoin"),
        (11, "workload.clients[1]"),
        (13, "arms.big.postgresql.port"),
        (15, "arms.small.inherit"),
        (16, "desing"),
    ]
    assert caught.value.message == 'experiment file "x.toml" has 10 errors'
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("path", "text", "message", "hint"),
    [
        ("workload.mix", change('"olap"', '"olaap"'), 'invalid value for "mix": "olaap"', 'Perhaps you meant "olap".'),
        ("workload.mix", change('"olap"', "3"), 'invalid value for "mix": 3', "Available values: oltp, olap"),
        (
            "workload.clients[0]",
            change("[5, 7]", "[0]"),
            '0 is outside the valid range for "clients": it must be at least 1',
            "",
        ),
        (
            "design.slice",
            GOOD + '[design]\nmethod = "duet"\nslice = "20ms"\n',
            '"20ms" is outside the valid range for "slice": it must be at least 30 ms',
            "",
        ),
        (
            "workload.clients",
            change("[5, 7]", '"8"'),
            'invalid value for "clients": "8"',
            "Give a number, a list such as [5, 10, 20], or",
        ),
        ("workload.clients", change("[5, 7]", "true"), 'invalid value for "clients": true', "Give a number"),
        ("workload.clients", change("[5, 7]", "[]"), "the list of load levels is empty", ""),
        ("workload.clients", change("[5, 7]", "2.5"), "expected a whole number, got 2.5", ""),
        (
            "workload.clients.ramp",
            change("[5, 7]", '{ ramp = "exp", from = 1, to = 4, levels = 2 }'),
            'invalid value for "ramp": "exp"',
            "Available values: linear, exponential.",
        ),
        (
            "workload.clients.levels",
            change("[5, 7]", '{ ramp = "linear", from = 1, to = 4 }'),
            'required key "levels" is missing',
            "Number of load levels.",
        ),
        (
            "workload.duration",
            change("clients = [5, 7]", 'duration = "10 minutes"'),
            "units: us, ms, s, min, h, d",
            "",
        ),
        ("workload.warmup", change("clients = [5, 7]", 'warmup = "fast"'), 'got "fast"', '{ cap = "2min" }'),
        ("workload.threads", change("clients = [5, 7]", 'threads = "2"'), "whole number", "without quotation marks"),
        ("workload.scenario", change('mix = "olap"', 'scenario = { name = "x" }'), "a list", "[[workload.scenario]]"),
        ("workload.seed", change("clients = [5, 7]", "seed = 1"), "unrecognized key", '"seed" belongs in [design].'),
        ("design.placebo", GOOD + '[design]\nplacebo = "yes"', "true or false", "without quotation marks"),
        ("design.blocks", GOOD + "[design]\nblocks = 0", "at least 1", ""),
        ("hypothesis.margin", GOOD + "[hypothesis]\nmargin = 3", 'valid range for "margin"', '"3%"'),
        ("hypothesis.margin", GOOD + '[hypothesis]\nmargin = "3"', 'a percentage such as "3%"', ""),
        ("hypothesis.confidence", GOOD + "[hypothesis]\nconfidence = 95", 'range for "confidence"', "0.95"),
        ("format", change("format = 1", "format = 2"), "format 2 is not known", "It reads format 1."),
        ("format", change("format = 1\n", ""), 'required key "format" is missing', "format = 1"),
        ("workload", 'format = 1\nexperiment = {name = "x"}', "required table [workload] is missing", "The load."),
        ("experiment", change('[experiment]\nname = "small"', "experiment = 3"), "expected a table, got 3", ""),
        ("experiment.name", change('name = "small"', ""), 'required key "name" is missing', "Name of the"),
        ("arms.a.work_mem", GOOD + '[arms.a]\nwork_mem = "1MB"', "unrecognized key", "[arms.a.postgresql]"),
        ("arms.a.sysclt", GOOD + "[arms.a.sysclt]\nx = 1", 'unrecognized key "sysclt"', 'you meant "sysctl"'),
        ("arms.a.scheduler", GOOD + "[arms.a]\nscheduler = 'none'", "unrecognized key", "in [arms.a.block_device]."),
        ("arms.a.vm", GOOD + "[arms.a]\nvm.swappiness = 1", 'unrecognized key "vm"', "belongs in [arms.a.sysctl]."),
        ("target.memory", GOOD + "[target]\nmemory = '1GB'", "unrecognized key", "in [target.cgroup]."),
        ("arms.a.cgroup.memroy", GOOD + "[arms.a.cgroup]\nmemroy = 1", 'key "memroy"', 'you meant "memory"'),
        ("arms.a.cgroup.memory", GOOD + "[arms.a.cgroup]\nmemory = 1", 'a size such as "4GB"', ""),
        ("arms.a.huge_pages.size", GOOD + "[arms.a.huge_pages]\nsize = '4MB'", '"4MB"', "none, 2MB, 1GB"),
        ("target.storage.data", GOOD + "[target.storage]\ndata = 'x'", 'directory "x" is not an absolute path', ""),
        (
            "arms.a.postgresql.auto_explain",
            change("[arms.b", "auto_explain.log_analyze = true\n[arms.b"),
            "got a table",
            "Write a name with a dot in quotation marks.",
        ),
        ("arms.a.postgresql.x", change("[arms.b", "x = [1]\n[arms.b"), "got a list", "in one string"),
        ("arms.a.postgresql.x", change("[arms.b", "x = nan\n[arms.b"), "nan is not a finite number", ""),
        ("arms.a.postgresql.x", change("[arms.b", 'x = "a\\nb"\n[arms.b'), "fit on one line", ""),
        ("desing", GOOD + "[desing]\nseed = 1", "unrecognized table or key [desing]", 'you meant "design"'),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(path: str, text: str, message: str, hint: str) -> None:
    problem = problems_of(text)[path]

    assert message in problem.message
    assert hint in problem.hint


def test_no_message_speaks_of_the_library_that_reads_the_file() -> None:
    broken = """\
format = "1"
experiment = []
arms = [1]
factors = { a = { levels = 1 }, b = { levels = [1] }, c = 1 }
[workload]
clients = { ramp = 1, from = "x", to = -1, levels = 1.5 }
rate = [true]
warmup = [1]
scenario = [1]
max_tries = "x"
[hypothesis]
arm = 1
expect = 1
"""
    problems = examine(broken, Path("/nowhere")).problems

    assert len(problems) >= 14
    for problem in problems:
        text = problem.message + problem.hint
        assert "Input should" not in text
        assert "Value error" not in text
        assert "pydantic" not in text
        assert problem.message[0].islower() or problem.message[0] in '"-0123456789'
        assert not problem.message.endswith(".")
        assert not problem.hint or problem.hint.endswith((".", "format = 1"))


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("format = 1\nx = off\n", 2, "not TOML", 'Write "off" in quotation marks, or false.'),
        ("format = 1\n\nwork_mem = 32MB # much\n", 3, "not TOML", 'A text needs quotation marks: "32MB".'),
        ("[arms\n", 1, "not TOML", "The line is: [arms"),
        ("[a]\n[a]\n", 2, "table [a] appears twice", ""),
        ("a = 1\na = 2\n", 2, "a key appears twice", ""),
        ("a = 1\nb = [1,\n", 2, "not TOML", ""),
    ],
)
def test_a_syntax_error_has_its_line_and_a_remedy(text: str, line: int, message: str, hint: str) -> None:
    (problem,) = examine(text, Path("/nowhere")).problems

    assert problem.line == line
    assert message in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize("text", ["a = " + "[" * 20000, "a = " + "9" * 5000, "a = " + "{b=" * 3000])
def test_absurd_nesting_and_numbers_are_one_error(text: str) -> None:
    assert len(examine(text, Path("/nowhere")).problems) == 1


@pytest.mark.parametrize("number", ["1" + "0" * 30, "-1", "1e300"])
def test_absurd_quantities_are_refused_before_they_are_used(number: str) -> None:
    text = change("[5, 7]", f"{{ ramp = 'linear', from = 1, to = {number}, levels = 3 }}")

    assert examine(text, Path("/nowhere")).problems


def test_a_file_is_read_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "e.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())

    assert load_experiment(tmp_path / "e.toml").folder == tmp_path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\xff\xfe\x00garbage", "is not a text file in UTF-8"),
        (b"a = 1\0", "is not a text file"),
        (b"#" * 10_000_000, "is too large for an experiment file: 9.54 MB"),
    ],
    ids=["empty", "blank", "binary", "zero bytes", "10 MB"],
)
def test_what_cannot_be_an_experiment_file_is_one_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "e.toml"
    path.write_bytes(content)

    with pytest.raises(SpecError, match=message) as caught:
        load_experiment(path)

    assert caught.value.problems == ()


def test_a_missing_file_and_a_directory_are_one_error(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="does not exist"):
        load_experiment(tmp_path / "none.toml")
    with pytest.raises(SpecError, match="is a directory"):
        load_experiment(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "there", "hint"),
    [
        ("quick.tmol", ["quick.toml", "full.toml"], 'Perhaps you meant "{folder}/quick.toml".'),
        ("quick", ["quick.toml"], 'Perhaps you meant "{folder}/quick.toml".'),
        ("quick.toml", ["quick.txt", "notes.md"], '"pgtrial init" writes an example.'),
        ("none/quick.toml", ["quick.toml"], '"pgtrial init" writes an example.'),
    ],
)
def test_of_a_missing_file_the_one_that_was_meant_is_named(
    tmp_path: Path, wrong: str, there: Sequence[str], hint: str
) -> None:
    for name in there:
        (tmp_path / name).touch()

    with pytest.raises(SpecError, match="does not exist") as caught:
        load_experiment(tmp_path / wrong)

    assert caught.value.hint == hint.format(folder=tmp_path)


def test_a_problem_found_elsewhere_gets_the_line_of_its_key_or_table() -> None:
    text = '[a]\n"x.y" = 1\n[[b]]\nc = 2\n'
    wanted = {'a."x.y"': 2, 'a."z.z"': 1, "b[0].c": 4, "b[0].d": 3, "b[0]": 3, "nowhere.at.all": None}

    located = locate_problems(text, [SpecProblem(path=path, message="") for path in wanted])

    assert {problem.path: problem.line for problem in located} == wanted


def test_what_is_left_of_a_broken_file_can_be_checked_further() -> None:
    left = examine(change("[5, 7]", '"x"'), Path("/nowhere")).experiment

    assert left is not None
    assert left.arms["a"].postgresql == {"shared_buffers": "1GB"}


def test_a_missing_part_does_not_raise_errors_about_what_needs_it() -> None:
    text = change("shared_buffers", "x.y") + '[hypothesis]\narm = "b"\nscenario = "read"\n'

    assert set(problems_of(text)) == {"arms.a.postgresql.x", "arms.b.postgresql.x"}
    assert set(problems_of(text.replace('mix = "olap"', "mix = 1").replace("x.y", "x"))) == {"workload.mix"}


@pytest.mark.parametrize(
    ("broken", "path"),
    [
        ("kind = 'sever'", "target.kind"),
        ("host = 'db'", "target.host"),
        ("database = ''", "target.database"),
        ("restart = 'x'", "target.restart"),
    ],
)
def test_a_target_that_cannot_be_read_does_not_raise_errors_about_what_fits_it(broken: str, path: str) -> None:
    keys = {
        "kind": "kind = 'server'",
        "host": "host = 'ssh://db'",
        "database": "database = 'shop'",
        "writes": "writes = true",
        "restart": "restart = ['x']",
        "connection": "connection = 'host=db'",
    }
    keys[broken.split(maxsplit=1)[0]] = broken
    text = (
        GOOD.replace("shared_buffers", "log_directory")
        + "[target]\n"
        + "\n".join(keys.values())
        + "\n[target.extensions]\npreload = ['x']\n[target.sysctl]\n'vm.swappiness' = 1\n"
        + "[dataset]\nkind = 'existing'\nscale = 1\n[arms.c]\ninherit = 'd'\n"
    )

    assert set(problems_of(text)) == {path, "arms.c.inherit"}
