import sqlite3
from pathlib import Path

import pytest


def nothing_left(tmp_path: Path) -> bool:
    results = tmp_path / "results"
    return not results.exists() or list(results.iterdir()) == []


def assert_one_clear_error(result, *words: str, status: int) -> None:
    assert result.returncode == status, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.count("error:") == 1
    for word in words:
        assert word in result.stderr


def test_setting_the_server_refuses_shows_its_own_line(pgtrial, experiment_file, tmp_path):
    file = experiment_file(
        ("[arms.off.postgresql]", '[arms.off.postgresql]\nshared_preload_libraries = "no_such_library"')
    )

    result = pgtrial("run", str(file))

    assert_one_clear_error(
        result, 'arm "off"', 'could not access file "no_such_library": No such file or directory', status=1
    )
    assert nothing_left(tmp_path)


def test_sql_error_in_a_scenario_names_scenario_and_server_line(pgtrial, experiment_file, tmp_path):
    (tmp_path / "wrong.sql").write_text("SELECT no_such_column FROM pgbench_branches;\n")
    file = experiment_file(('mix      = "simple-update"', 'scenario = [{ name = "wrong", file = "wrong.sql" }]'))

    result = pgtrial("run", str(file))

    assert_one_clear_error(result, 'scenario "wrong"', 'column "no_such_column" does not exist', status=1)
    assert nothing_left(tmp_path)


def test_sql_error_in_the_set_up_names_file_and_line(pgtrial, experiment_file, tmp_path):
    (tmp_path / "setup.sql").write_text("SELECT 1;\nCREATE TABLE t (a nonsense);\n")

    result = pgtrial("run", str(experiment_file(("scale = 1", 'scale = 1\nsetup = "setup.sql"'))))

    assert_one_clear_error(result, "line 2", 'type "nonsense" does not exist', status=1)
    assert nothing_left(tmp_path)


def test_more_clients_than_connections_is_said_before_the_load(pgtrial, experiment_file, tmp_path):
    file = experiment_file(
        ("clients  = 2", "clients  = 60"), ("[workload]", "[target.postgresql]\nmax_connections = 50\n[workload]")
    )

    result = pgtrial("run", str(file))

    assert_one_clear_error(result, "max_connections is 50", "63 are needed", status=2)
    assert nothing_left(tmp_path)


def test_programs_that_are_not_there(pgtrial, experiment_file, tmp_path):
    file = experiment_file(("[dataset]", '[target]\npostgres = "99"\n[dataset]'))

    result = pgtrial("run", str(file))

    assert_one_clear_error(result, "PostgreSQL 99", status=result.returncode)
    assert result.returncode in (1, 2)
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("place", ["/proc/nothing", "/dev/null/x"])
def test_work_directory_that_cannot_be_made(place, pgtrial, experiment_file, tmp_path):
    result = pgtrial("run", str(experiment_file()), "--work-directory", place)

    assert_one_clear_error(result, place, "--work-directory", status=1)
    assert nothing_left(tmp_path)


def test_work_directory_with_a_path_too_long_for_a_socket_works(pgtrial, experiment_file, tmp_path):
    for parent in (tmp_path, *tmp_path.parents):
        if parent.is_relative_to("/tmp/") and parent != Path("/tmp"):
            parent.chmod(0o755)
    place = tmp_path / ("x" * 100)

    result = pgtrial("run", str(experiment_file(("blocks = 2", "blocks = 1"))), "--work-directory", str(place))

    assert result.returncode == 0, result.stderr
    assert list(place.iterdir()) == []


def test_results_that_cannot_be_written(pgtrial, experiment_file):
    result = pgtrial("run", str(experiment_file()), "--results", "/proc/results")

    assert_one_clear_error(result, "/proc/results", "--results", status=1)


def test_folder_of_a_newer_format_is_refused(pgtrial, tmp_path):
    folder = tmp_path / "newer"
    folder.mkdir()
    with sqlite3.connect(folder / "state.sqlite") as db:
        db.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        db.execute("INSERT INTO meta VALUES ('format', '2')")

    for command in ("report", "status", "resume"):
        assert_one_clear_error(pgtrial(command, str(folder)), "format 2", "up to format 1", status=1)


@pytest.mark.parametrize("command", ["report", "status", "resume"])
def test_folder_that_is_none(command, pgtrial, tmp_path):
    (tmp_path / "empty").mkdir()

    assert_one_clear_error(pgtrial(command, "empty"), "not a result folder", status=1)
    assert_one_clear_error(pgtrial(command, "nowhere"), "not a result folder", status=1)


def test_state_that_is_garbage(pgtrial, tmp_path):
    folder = tmp_path / "garbage"
    folder.mkdir()
    (folder / "state.sqlite").write_bytes(b"this is no database" * 100)

    assert_one_clear_error(pgtrial("status", str(folder)), "garbage", status=1)
