from pathlib import Path

from pgtrial.design.data_size import estimate_data_size, largest_files
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.load import parse_experiment

TEXT = """\
format = 1
[experiment]
name = "x"
[workload]
kind = "fio"
clients = 2
[[workload.job]]
name = "log"
pattern = "write"
size = "8MB"
fsync = 1
share = 3
[[workload.job]]
name = "data"
pattern = "randread"
size = "1GB"
[target.fio]
block_size = "4kB"
[arms.cold.fio]
cache = "cold"
[arms.direct.fio]
direct = true
block_size = "16kB"
[design]
cache = "warm"
"""


def read(text: str = TEXT) -> Experiment:
    return parse_experiment(text, "x", Path("/")).experiment


def test_the_table_of_an_arm_holds_for_all_its_jobs() -> None:
    experiment = read()
    cold, direct = resolve_arms(experiment)

    assert [(job.name, job.block_size, job.direct) for job in cold.jobs] == [
        ("log", 4096, False),
        ("data", 4096, False),
    ]
    assert [(job.block_size, job.direct) for job in direct.jobs] == [(16384, True)] * 2


def test_what_a_job_does_not_say_has_its_default() -> None:
    experiment = read()
    log, data = resolve_arms(experiment)[0].jobs

    assert (log.fsync, log.share, log.engine, log.depth) == (1, 3.0, "psync", 1)
    assert (data.fsync, data.share) == (0, 1.0)
    assert (log.writes, log.is_sequential, data.writes, data.is_sequential) == (True, True, False, False)


def test_the_state_of_the_cache_is_the_arms_own_or_that_of_all() -> None:
    experiment = read()
    cold, direct = resolve_arms(experiment)

    assert (cold.cache, direct.cache) == ("cold", "warm")


def test_a_file_is_as_large_as_the_arm_with_the_largest_needs_it() -> None:
    text = TEXT.replace('size = "1GB"\n', "").replace("[arms.cold.fio]\n", "[arms.cold.fio]\nsize = '1GB'\n")
    text = text.replace('size = "8MB"\n', "").replace("[arms.direct.fio]\n", "[arms.direct.fio]\nsize = '2GB'\n")
    experiment = read(text)

    assert largest_files(experiment) == {"log": 2 << 30, "data": 2 << 30}
    assert estimate_data_size(experiment) == 4 << 30
