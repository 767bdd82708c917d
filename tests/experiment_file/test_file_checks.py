from pathlib import Path

import pytest

from pgtrial.errors import SpecProblem
from pgtrial.experiment_file.load import examine, parse_experiment

HEAD = 'format = 1\n[experiment]\nname = "x"\n'
LOAD = '[workload]\nkind = "fio"\nduration = "10s"\n'
WORK = '[target.fio]\npattern = "randread"\n'
SIZES = '[factors.size]\nknob = "fio"\nlevels = ["1MB", "2MB"]\n'
CACHES = '[factors.cache]\nknob = "fio"\nlevels = ["cold", "warm"]\n'
WHOLE = HEAD + LOAD + WORK + SIZES


def find(text: str) -> dict[str, SpecProblem]:
    found = examine(text, None).problems
    assert len({problem.path for problem in found}) == len(found), found
    return {problem.path: problem for problem in found}


def job(name: str = "a", **keys: object) -> str:
    rendered = "".join(
        f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}\n" for key, value in keys.items()
    )
    return f'[[workload.job]]\nname = "{name}"\n{rendered}'


TWO_JOBS = job(pattern="write", size="1MB", fsync=1) + job("b", pattern="read", size="2MB")


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        WHOLE + CACHES,
        WHOLE + '[target]\nkind = "host"\ndirectory = "/var/tmp"\n',
        WHOLE + '[target.memory_pressure]\nshare = "50%"\n[target.tracing]\nthrottling = "if-possible"\n',
        WHOLE + '[hypothesis]\nmetric = "fio.latency_p99"\n[design]\ncache = "cold"\n',
        WHOLE.replace(LOAD, LOAD + "clients = [1, 4]\n"),
        HEAD + LOAD + "clients = 4\n" + TWO_JOBS + CACHES,
        HEAD + LOAD + WORK + "[arms.a.fio]\nsize = '1MB'\n[arms.b]\ninherit = 'a'\n[arms.b.fio]\ndirect = true\n",
        HEAD + LOAD + WORK + "[arms.a.fio]\nsize = '1MB'\n[arms.b.fio]\nsize = '1MB'\nengine = 'libaio'\ndepth = 8\n",
    ],
)
def test_what_is_right_is_not_refused(text: str) -> None:
    assert find(text) == {}


def test_what_is_left_out_is_filled_in() -> None:
    experiment = parse_experiment(WHOLE, "x", Path("/")).experiment

    assert experiment.target.kind == "host"
    assert (experiment.workload.clients, experiment.workload.warmup) == (1, 0)
    assert experiment.hypothesis.metric == "fio.bandwidth"
    assert experiment.workload.scenario_names == ("files",)


def test_what_the_file_says_stays() -> None:
    text = WHOLE.replace(LOAD, LOAD + 'clients = 3\nwarmup = "5s"\n') + '[hypothesis]\nmetric = "fio.iops"\n'
    experiment = parse_experiment(text, "x", Path("/")).experiment

    assert (experiment.workload.clients, experiment.workload.warmup) == (3, 5)
    assert experiment.hypothesis.metric == "fio.iops"


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (WHOLE + '[target]\nkind = "throwaway"\n', "target.kind", 'kind = "throwaway" is a server'),
        (WHOLE + '[target]\nhost = "ssh://other"\n', "target.host", "is only on the machine that pgtrial runs on"),
        (WHOLE + "[target]\npostgres = 16\n", "target.postgres", 'no meaning with kind = "fio"'),
        (WHOLE + "[dataset]\nscale = 10\n", "dataset", '[dataset] has no meaning with kind = "fio"'),
        (WHOLE.replace(LOAD, LOAD + "mix = 'oltp'\n"), "workload.mix", '"mix" has no meaning'),
        (WHOLE.replace(LOAD, LOAD + "rate = 10\n"), "workload.rate", '"rate" has no meaning'),
        (WHOLE + "[target.postgresql]\nwork_mem = '4MB'\n", "target.postgresql", 'knob "postgresql" has no meaning'),
        (WHOLE + "[target.huge_pages]\nsize = '2MB'\n", "target.huge_pages", 'knob "huge_pages" has no meaning'),
        (WHOLE + "[target.storage]\nwal = '/var/tmp'\n", "target.storage.wal", '"wal" has no meaning'),
        (WHOLE + "[hypothesis]\nmetric = 'pgbench.tps'\n", "hypothesis.metric", 'is not of kind "fio"'),
        (WHOLE + "[hypothesis]\nmetric = 'fio.iop'\n", "hypothesis.metric", 'unrecognized metric "fio.iop"'),
        (WHOLE + "[hypothesis]\nscenario = 'file'\n", "hypothesis.scenario", 'scenario "file" does not exist'),
        (HEAD + LOAD + SIZES, "workload", 'arm "size=1MB" does not say the pattern of job "files"'),
        (HEAD + LOAD + WORK + CACHES, "workload", 'arm "cache=cold" does not say the size of job "files"'),
        (
            WHOLE + job(size="1MB"),
            "factors.size.levels[0]",
            '"size" of job "a" is given twice',
        ),
        (
            HEAD + LOAD + "clients = 2\n" + job(pattern="read", size="1MB") + job(pattern="read", size="1MB") + CACHES,
            "workload.job[1].name",
            'job name "a" appears twice',
        ),
        (WHOLE.replace("randread", "random"), "target.fio.pattern", 'invalid value for "pattern": "random"'),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(text: str, path: str, message: str) -> None:
    assert message in find(text)[path].message


@pytest.mark.parametrize(
    ("keys", "path", "message"),
    [
        ({"depth": 4}, "target.fio.depth", "psync has one request under way"),
        ({"direct": True, "block_size": "1000B"}, "target.fio.block_size", "cannot be read past the page cache"),
        ({"fsync": 1}, "target.fio.fsync", '"fsync" has no meaning with pattern = "randread"'),
        ({"block_size": "8MB"}, "factors.size.levels[0]", "too small for 1 processes"),
        ({"dept": 4}, "target.fio.dept", 'unrecognized key "dept"'),
        ({"size": "many"}, "target.fio.size", 'invalid value for "size"'),
    ],
)
def test_work_that_no_job_can_do_is_refused(keys: dict[str, object], path: str, message: str) -> None:
    added = "".join(
        f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}\n" for key, value in keys.items()
    )
    found = find(WHOLE.replace(WORK, WORK + added))

    assert message in found[path].message


def test_a_key_that_is_nearly_right_is_named() -> None:
    found = find(WHOLE.replace(WORK, WORK + "blocksize = '4kB'\n"))

    assert 'Perhaps you meant "block_size".' in found["target.fio.blocksize"].hint


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[target]\nkind = 'host'\n", "target.kind"),
        ("[target.fio]\nsize = '1MB'\n", "target.fio"),
        (job(size="1MB"), "workload.job"),
    ],
)
def test_a_load_on_a_server_has_no_files(text: str, path: str) -> None:
    arms = "[arms.a]\n[arms.b.postgresql]\nwork_mem = '1MB'\n"
    found = find(HEAD + "[workload]\nmix = 'select-only'\n" + text + arms)

    assert 'kind = "fio"' in found[path].hint


def test_a_wrong_kind_of_load_is_the_only_error() -> None:
    found = find(WHOLE.replace('kind = "fio"', 'kind = "fi"'))

    assert list(found) == ["workload.kind"]
    assert 'Perhaps you meant "fio".' in found["workload.kind"].hint


def test_jobs_need_a_process_each() -> None:
    text = HEAD + LOAD + job(pattern="read", size="1MB") + job("b", pattern="write", size="1MB") + CACHES

    assert find(text)["workload.clients"].message == "1 clients are too few for 2 scenarios"


def test_blocks_may_repeat_only_where_they_are_random() -> None:
    random = WHOLE.replace(WORK, WORK + "norandommap = true\n")
    place = "target.fio.norandommap"

    assert not find(random)
    assert (
        '"norandommap" has no meaning with pattern = "write"'
        in find(random.replace("randread", "write"))[place].message
    )


def test_only_a_single_job_works_once() -> None:
    once = WHOLE.replace(WORK, WORK + "once = true\n")
    two = HEAD + LOAD + "clients = 2\n" + job(pattern="read", size="1MB", once=True)
    two += job("b", pattern="write", size="1MB") + CACHES

    assert not find(once)
    assert any(error.message == '"once" is for a single job' for error in find(two).values())
