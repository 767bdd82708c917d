import os
from pathlib import Path

import pytest

from pgtrial.errors import StoreError
from pgtrial.store import layout
from pgtrial.web.inside import Place, find_places, find_root, open_inside
from support import write_result_folder


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    write_result_folder(folder)
    (folder / layout.REPORT).write_text("secret")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_result_folder(tmp_path / "results" / "first", runs=1)
    return find_root(tmp_path / "results")


def read(place: Place, name: str) -> bytes | None:
    with open_inside(place, name) as opened:
        return None if opened is None else opened[0].read()


def test_result_folders_are_found_and_nothing_else(root: Path, secret: Path) -> None:
    (root / "empty").mkdir()
    (root / "file").touch()
    (root / "linked").symlink_to(secret)
    (root / "fake").mkdir()
    (root / "fake" / layout.STATE).symlink_to(secret / layout.STATE)
    (root / "pipe").mkdir()
    os.mkfifo(root / "pipe" / layout.STATE)
    write_result_folder(root / ".hidden-1", runs=0)

    assert [place.name for place in find_places(root)] == ["first"]


def test_a_result_folder_is_served_by_itself(root: Path) -> None:
    (place,) = find_places(root / "first")

    assert (place.name, place.path) == ("first", root / "first")


def test_ids_are_of_a_fixed_form_whatever_the_name(root: Path) -> None:
    names = [
        "<img src=x onerror=alert(1)>",
        "evil..",
        "a b%2f",
        "=cmd|' 'C calc'!A0",
        "ünï\x1b[2J",
        os.fsdecode(b"\xff\xfe"),
    ]
    for name in names:
        (root / "first").rename(root / name)
        (place,) = find_places(root)
        assert place.name == name
        assert len(place.id) == 16
        assert set(place.id) <= set("0123456789abcdef")
        (root / name).rename(root / "first")


def test_a_file_that_is_a_link_is_not_opened(root: Path, secret: Path) -> None:
    (place,) = find_places(root)
    (root / "first" / layout.REPORT).symlink_to(secret / layout.REPORT)

    assert read(place, layout.REPORT) is None


def test_a_folder_that_has_become_a_link_is_not_opened(root: Path, secret: Path) -> None:
    (place,) = find_places(root)
    (root / "first").rename(root / "away")
    (root / "first").symlink_to(secret)

    assert read(place, layout.REPORT) is None


def test_pipes_and_directories_are_not_opened(root: Path) -> None:
    (place,) = find_places(root)
    os.mkfifo(root / "first" / "pipe")
    (root / "first" / "directory").mkdir()

    assert read(place, "pipe") is None
    assert read(place, "directory") is None
    assert read(place, "none") is None


def test_a_plain_file_is_opened_with_its_size(root: Path) -> None:
    (place,) = find_places(root)
    (root / "first" / layout.REPORT).write_text("abc")
    with open_inside(place, layout.REPORT) as opened:
        assert opened is not None
        assert (opened[0].read(), opened[1]) == (b"abc", 3)


def test_a_root_that_is_a_link_is_what_it_leads_to(tmp_path: Path, root: Path) -> None:
    (tmp_path / "link").symlink_to(root)

    assert find_root(tmp_path / "link") == root


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")

    with pytest.raises(StoreError, match="cannot open"):
        find_root(tmp_path / "circle")
