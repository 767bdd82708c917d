import os
import sqlite3

import pytest


def nothing_left(place) -> bool:
    results = place.directory / "results"
    return not results.exists() or list(results.iterdir()) == []


def assert_one_clear_error(result, *words: str, status: int) -> None:
    assert result.returncode == status, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.count("error:") == 1
    for word in words:
        assert word in result.stderr


def test_setting_the_server_refuses_shows_its_own_line(place):
    place.write_light_experiment(
        ("[arms.off.postgresql]", '[arms.off.postgresql]\nshared_preload_libraries = "no_such_library"')
    )

    result = place.run("run", "small.toml")

    assert_one_clear_error(
        result, 'arm "off"', 'could not access file "no_such_library": No such file or directory', status=1
    )
    assert nothing_left(place)


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("SELECT no_such_column FROM numbered;\n", "", 'column "no_such_column" does not exist'),
        # Two statements in one message.
        ("SELECT 1 \\; SELECT 2;\n", '\nprotocol = "prepared"', "multiple commands"),
    ],
)
def test_scenario_that_cannot_run_is_said_before_the_load(place, text, options, told):
    (place.directory / "wrong.sql").write_text(text)
    place.write_light_experiment(
        ('name = "light", file = "light.sql" }]', f'name = "wrong", file = "wrong.sql" }}]{options}')
    )

    result = place.run("run", "small.toml")

    assert_one_clear_error(result, 'scenario "wrong"', told, status=1)
    assert nothing_left(place)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT 1;\nCREATE TABLE t (a nonsense);\n", ("line 2", 'type "nonsense" does not exist')),
        (
            "ALTER DATABASE pgtrial SET synchronous_commit = on;\n",
            ('arm "off"', '"synchronous_commit" is on (source: database)'),
        ),
    ],
)
def test_set_up_that_fails_or_overrides_an_arm_is_said_before_the_load(place, text, told):
    (place.directory / "setup.sql").write_text(text)
    place.write_experiment(("scale = 1", 'scale = 1\nsetup = "setup.sql"'))

    result = place.run("run", "small.toml")

    assert_one_clear_error(result, *told, status=1)
    assert nothing_left(place)


def test_more_clients_than_connections_is_said_before_the_load(place):
    place.write_experiment(
        ("clients  = 2", "clients  = 60"), ("[workload]", "[target.postgresql]\nmax_connections = 50\n[workload]")
    )

    result = place.run("run", "small.toml")

    assert_one_clear_error(result, "max_connections is 50", "63 are needed", status=2)
    assert nothing_left(place)


def test_programs_that_are_not_there(place):
    place.write_experiment(("[dataset]", '[target]\npostgres = "99"\n[dataset]'))

    result = place.run("run", "small.toml")

    assert_one_clear_error(result, "PostgreSQL 99", status=result.returncode)
    assert result.returncode in (1, 2)
    assert nothing_left(place)


@pytest.mark.parametrize("directory", ["/proc/nothing", "/dev/null/x"])
def test_work_directory_that_cannot_be_made(directory, place):
    place.write_experiment()

    result = place.run("run", "small.toml", "--work-directory", directory)

    assert_one_clear_error(result, directory, "--work-directory", status=1)
    assert nothing_left(place)


def test_work_directory_that_the_servers_user_cannot_reach(place, enterable):
    if os.geteuid() != 0:
        pytest.skip("only when pgtrial is root does the server run as another user")
    (enterable / "closed").mkdir(mode=0o700)
    place.write_experiment()

    result = place.run("run", "small.toml", "--work-directory", str(enterable / "closed/work"))

    assert_one_clear_error(result, f'cannot reach "{enterable}/closed/work"', "--work-directory", status=1)
    assert list((enterable / "closed/work").iterdir()) == []
    assert nothing_left(place)


def test_results_that_cannot_be_written(place):
    place.write_experiment()

    result = place.run("run", "small.toml", "--results", "/proc/results")

    assert_one_clear_error(result, "/proc/results", "--results", status=1)


def test_folder_of_a_newer_format_is_refused(place):
    folder = place.directory / "newer"
    folder.mkdir()
    with sqlite3.connect(folder / "state.sqlite") as db:
        db.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        db.execute("INSERT INTO meta VALUES ('format', '2')")

    for command in ("report", "status", "resume"):
        assert_one_clear_error(place.call(command, str(folder)), "format 2", "up to format 1", status=1)


@pytest.mark.parametrize("command", ["report", "status", "resume"])
def test_folder_that_is_none(command, place):
    (place.directory / "empty").mkdir()

    assert_one_clear_error(place.call(command, "empty"), "not a result folder", status=1)
    assert_one_clear_error(place.call(command, "nowhere"), "not a result folder", status=1)
    assert list((place.directory / "empty").iterdir()) == []


def test_state_that_is_garbage(place):
    folder = place.directory / "garbage"
    folder.mkdir()
    (folder / "state.sqlite").write_bytes(b"this is no database" * 100)

    assert_one_clear_error(place.call("status", str(folder)), "garbage", status=1)
