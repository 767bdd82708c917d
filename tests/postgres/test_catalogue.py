from typing import Any

import pytest

from pgtrial.errors import SpecProblem
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.postgres.catalogue import (
    VERSIONS,
    as_read,
    check_settings,
    check_unknown_server,
    needs_restart,
    read_catalogue,
)


def experiment(**tables: Any) -> Experiment:
    head = {"format": 1, "experiment": {"name": "x"}, "workload": {"mix": "olap"}, "arms": {"a": {}, "b": {}}}
    return Experiment.model_validate(head | tables)


def find(version: int = 15, **tables: Any) -> dict[str, SpecProblem]:
    return {problem.path: problem for problem in check_settings(experiment(**tables), version)}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_has_a_catalogue_with_ranges_for_its_numbers(version: int) -> None:
    catalogue = read_catalogue(version)

    assert len(catalogue) > 340
    for facts in catalogue.values():
        assert (facts.low is not None and facts.high is not None) == (facts.vartype in ("integer", "real"))
        assert bool(facts.choices) == (facts.vartype == "enum")


def test_versions_differ_where_postgresql_does() -> None:
    assert "io_method" in read_catalogue(18)
    assert "io_method" not in read_catalogue(17)
    assert "old_snapshot_threshold" in read_catalogue(16)
    assert "old_snapshot_threshold" not in read_catalogue(17)
    assert read_catalogue(15)["shared_buffers"].boot == "16384"


def test_right_settings_in_every_place_are_accepted() -> None:
    assert not find(
        target={"postgresql": {"jit": False, "checkpoint_timeout": "10min", "auto_explain.log_min_duration": 0}},
        arms={"a": {"postgresql": {"work_mem": "4MB"}}, "b": {"postgresql": {"synchronous_commit": True}}},
    )
    assert not find(arms={}, factors={"cache": {"setting": "shared_buffers", "levels": ["128MB", "1GB"]}})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("shared_bufers", 'Perhaps you meant "shared_buffers".'),
        ("Shared_Buffers", 'Perhaps you meant "shared_buffers".'),
        ("sort_mem", 'Perhaps you meant "work_mem".'),
        ("io_method", "PostgreSQL 18 has it."),
        ("debug_parallel_query", "PostgreSQL 16, 17, 18 have it."),
        ("qqqqqqq", "Settings of extensions have a dot in their names."),
    ],
)
def test_an_unknown_name_gets_the_nearest_or_the_version_that_has_it(name: str, hint: str) -> None:
    problem = find(target={"postgresql": {name: "1"}})[f"target.postgresql.{name}"]

    assert problem.message == f'unrecognized setting "{name}" for PostgreSQL 15'
    assert problem.hint == hint


def test_a_name_of_an_extension_has_to_be_a_name() -> None:
    problems = find(target={"postgresql": {"a.b": 1, "a..b": 1, "9.x": 1}})

    assert set(problems) == {'target.postgresql."a..b"', 'target.postgresql."9.x"'}


def test_what_the_server_only_shows_cannot_be_set() -> None:
    assert (
        "cannot be changed" in find(target={"postgresql": {"block_size": 8192}})["target.postgresql.block_size"].message
    )


def test_every_wrong_value_has_the_path_it_stands_at() -> None:
    assert set(find(arms={"a": {"postgresql": {"work_mem": "1mb"}}, "b": {"postgresql": {"jit": "maybe"}}})) == {
        "arms.a.postgresql.work_mem",
        "arms.b.postgresql.jit",
    }
    assert set(find(arms={}, factors={"work_mem": {"levels": ["1MB", "1mb"]}, "wrk_mem": {"levels": [1, 2]}})) == {
        "factors.work_mem.levels[1]",
        "factors.wrk_mem",
    }
    assert set(find(arms={}, factors={"m": {"setting": "wrk_mem", "levels": [1, 2]}})) == {"factors.m.setting"}


def test_clients_have_to_fit_into_max_connections() -> None:
    workload = {"mix": "olap", "clients": [50, 98]}

    problem = find(workload=workload)["workload.clients"]

    assert problem.message == 'arm "a": max_connections is 100, 101 are needed'
    assert "max_connections = 101" in problem.hint
    assert not find(workload=workload, target={"postgresql": {"max_connections": 101}})
    assert set(
        find(
            workload=workload,
            target={"postgresql": {"max_connections": 200}},
            arms={"a": {}, "b": {"postgresql": {"max_connections": 50}}},
        )
    ) == {"arms.b.postgresql.max_connections"}


def test_connections_of_a_server_that_is_there_are_known_only_to_it() -> None:
    tables = {
        "workload": {"mix": "select-only", "clients": 200},
        "dataset": {"kind": "existing"},
        "target": {"kind": "server", "database": "bench"},
    }
    assert not find(**tables)
    tables["target"] |= {"postgresql": {"max_connections": 100}}
    assert set(find(**tables)) == {"target.postgresql.max_connections"}


def test_of_a_server_of_unknown_version_only_what_no_version_takes_is_wrong() -> None:
    settings = {"io_method": "sync", "old_snapshot_threshold": "1min", "shared_bufers": "1GB", "work_mem": "1mb"}
    found = check_unknown_server(experiment(target={"postgresql": settings}), VERSIONS)

    assert [problem.path for problem in found] == ["target.postgresql.shared_bufers", "target.postgresql.work_mem"]
    assert found[0].message == 'unrecognized setting "shared_bufers" for PostgreSQL 18'
    assert len(check_unknown_server(experiment(target={"postgresql": settings}), (15,))) == 3


def test_constant_sessions_count_as_connections() -> None:
    scenarios = [{"name": "a", "builtin": "select-only"}, {"name": "b", "builtin": "select-only", "sessions": 60}]

    assert "workload.clients" in find(workload={"scenario": scenarios, "clients": 40})


def test_a_version_without_a_catalogue_is_left_to_its_server() -> None:
    assert check_settings(experiment(target={"postgresql": {"no_such_setting": 1}}), 99) == ()
    assert needs_restart("shared_buffers", 99) is None


def test_only_some_settings_need_a_restart() -> None:
    assert needs_restart("shared_buffers", 15) is True
    assert needs_restart("work_mem", 15) is False


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"SHARED_BUFFERS": "1GB"}, {"shared_buffers": "131072"}),
        ({"shared_buffers": "131072"}, {"shared_buffers": "131072"}),
        ({"commit_delay": " 10 "}, {"commit_delay": "10"}),
        ({"random_page_cost": "1.10"}, {"random_page_cost": "1.1"}),
        ({"fsync": "0"}, {"fsync": "off"}),
        ({"fsync": "fals"}, {"fsync": "off"}),
        ({"synchronous_commit": "FALSE"}, {"synchronous_commit": "off"}),
        ({"synchronous_commit": "Remote_Write"}, {"synchronous_commit": "remote_write"}),
        ({"sort_mem": "8MB"}, {"work_mem": "8192"}),
        ({"application_name": "A b"}, {"application_name": "A b"}),
        ({"my.own": "1GB"}, {"my.own": "1GB"}),  # in no catalogue
        ({"work_mem": "much"}, {"work_mem": "much"}),  # the server says what is wrong with it
    ],
)
def test_settings_are_as_the_server_reads_them(written: dict[str, str], read: dict[str, str]) -> None:
    assert as_read(written, has_defaults=True) == as_read(written, has_defaults=False) == read


def test_a_default_sets_nothing_on_a_server_that_has_it() -> None:
    defaults = {"work_mem": "4096kB", "fsync": "true"}

    assert as_read(defaults, has_defaults=True) == {}
    assert as_read(defaults, has_defaults=False) == {"work_mem": "4096", "fsync": "on"}
    # Not one in all versions: 1 before 18.
    assert as_read({"effective_io_concurrency": "16"}, has_defaults=True) == {"effective_io_concurrency": "16"}
