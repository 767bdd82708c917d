import hashlib
import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from pgtrial.errors import StoreError
from pgtrial.export import archive
from pgtrial.export.archive import FACTS, SUMS, BundleFacts, pack, read_facts, unpack, verify

FILES = {"experiment.toml": b"format = 1\n", "runs/0001-on-b1/samples.parquet": b"PAR1" * 1000, "empty": b""}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    found = {}
    for name, content in FILES.items():
        path = tmp_path / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        found[name] = path
    return found


@pytest.fixture
def packed(tmp_path: Path, files: dict[str, Path]) -> Path:
    facts = BundleFacts(pgtrial_version="0.1.0", redacted=("hosts",), left_out=2)
    return pack("exp", files, tmp_path / "exp.pgtrial.zip", facts=facts).path


def rewrite(path: Path, change: dict[str, bytes | None], *, add: dict[str, bytes] | None = None) -> Path:
    """The same archive with other contents of some entries, without those that become None, and with others."""
    with zipfile.ZipFile(path) as archive:
        content = {info.filename: archive.read(info) for info in archive.infolist()}
    out = path.with_name("changed.zip")
    with zipfile.ZipFile(out, "w") as archive:
        for name, old in content.items():
            new = change.get(name, old)
            if new is not None:
                archive.writestr(name, new)
        for name, new in (add or {}).items():
            archive.writestr(name, new)
    return out


def test_what_was_packed_is_unpacked(packed: Path, tmp_path: Path) -> None:
    folder = unpack(packed, tmp_path / "results")

    assert folder == tmp_path / "results" / "exp"
    assert {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()} == {
        **FILES,
        FACTS: (folder / FACTS).read_bytes(),
    }
    assert read_facts(folder) == BundleFacts(pgtrial_version="0.1.0", redacted=("hosts",), left_out=2)
    assert verify(packed) == ("exp", read_facts(folder))


def test_the_same_files_give_the_same_archive_whenever_they_were_written(
    packed: Path, files: dict[str, Path], tmp_path: Path
) -> None:
    import os

    for path in files.values():
        os.utime(path, (1, 1))
        path.chmod(0o600)
    facts = BundleFacts(pgtrial_version="0.1.0", redacted=("hosts",), left_out=2)
    again = pack("exp", dict(reversed(files.items())), tmp_path / "again.zip", facts=facts)

    assert again.path.read_bytes() == packed.read_bytes()
    assert again.sha256 == hashlib.sha256(packed.read_bytes()).hexdigest()
    assert (again.size, again.files) == (packed.stat().st_size, len(FILES) + 1)


def test_other_programs_can_check_it_too(packed: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path / "by hand")

    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", SUMS],
        cwd=tmp_path / "by hand" / "exp",
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.count(": OK") == len(FILES) + 1


@pytest.mark.parametrize(
    ("change", "add", "told"),
    [
        ({"exp/experiment.toml": b"format = 2\n"}, {}, 'the checksum of "experiment.toml" does not match'),
        ({"exp/empty": None}, {}, 'it has no "empty", which is'),
        ({}, {"exp/more": b"x"}, 'it has "more", which is not in its list'),
        ({f"exp/{SUMS}": b"what?\n"}, {}, "a line that is not a checksum"),
        ({f"exp/{SUMS}": None}, {}, f"it has no {SUMS}"),
        ({f"exp/{FACTS}": None}, {}, f"it has no {FACTS}"),
        ({f"exp/{FACTS}": b"[]"}, {}, f"{FACTS} is not what it should be"),
        ({f"exp/{FACTS}": json.dumps({"format": 2}).encode()}, {}, "has format 2 of bundles, this pgtrial reads up to"),
        ({}, {"exp/../../evil": b"x"}, 'it has an entry "exp/../../evil"'),
        ({}, {"/etc/evil": b"x"}, 'it has an entry "/etc/evil"'),
        ({}, {"exp\\..\\evil": b"x"}, "it has an entry"),
        ({}, {"loose": b"x"}, 'it has an entry "loose"'),
        ({}, {"exp/sub/": b""}, 'it has an entry "exp/sub/"'),
        ({}, {"other/file": b"x"}, "it has 2 folders, not one"),
        ({}, {"exp/\x1b[31m": b"x"}, r'it has an entry "exp/\x1b[31m"'),
    ],
)
def test_what_is_not_as_it_was_packed_is_refused_and_nothing_is_written(
    packed: Path, tmp_path: Path, change: dict[str, bytes | None], add: dict[str, bytes], told: str
) -> None:
    changed = rewrite(packed, change, add=add)

    with pytest.raises(StoreError, match=r"bundle|damaged") as error:
        unpack(changed, tmp_path / "results")

    assert told in error.value.message
    assert error.value.hint
    assert not (tmp_path / "results").exists()
    assert not list(tmp_path.rglob("evil"))


def test_an_entry_that_is_packed_in_another_way_is_refused(packed: Path, tmp_path: Path) -> None:
    out = tmp_path / "lzma.zip"
    with zipfile.ZipFile(packed) as archive, zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as other:
        for info in archive.infolist():
            other.writestr(info.filename, archive.read(info))

    with pytest.raises(StoreError, match="it has an entry"):
        verify(out)


def test_what_has_no_room_is_not_unpacked(packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100))

    with pytest.raises(StoreError, match=r"holds .* has room for 100 B"):
        unpack(packed, tmp_path / "results")

    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04" + b"\0" * 100])
def test_another_file_is_no_bundle(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(content)

    with pytest.raises(StoreError, match="is not a bundle"):
        verify(path)


def test_a_file_that_is_cut_or_flipped_is_refused(packed: Path) -> None:
    whole = packed.read_bytes()
    place = whole.index(b"PAR1PAR1") + 2
    for broken in (whole[:-30], whole[:place] + b"X" + whole[place + 1 :]):
        packed.write_bytes(broken)
        with pytest.raises(StoreError, match=r"is not a bundle|is damaged"):
            verify(packed)


def test_a_file_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file"):
        verify(tmp_path / "none.zip")


def test_a_folder_that_is_there_is_never_written_into(packed: Path, tmp_path: Path) -> None:
    (tmp_path / "results" / "exp").mkdir(parents=True)

    with pytest.raises(StoreError, match="already exists"):
        unpack(packed, tmp_path / "results")

    assert list((tmp_path / "results").rglob("*")) == [tmp_path / "results" / "exp"]


def test_an_archive_is_whole_or_not_there(files: dict[str, Path], tmp_path: Path) -> None:
    files["missing"] = tmp_path / "nothing"

    with pytest.raises(StoreError, match="cannot write"):
        pack("exp", files, tmp_path / "out.zip", facts=BundleFacts(pgtrial_version="0.1.0"))

    assert not list(tmp_path.glob("out.zip*"))


def test_an_entry_that_is_a_link_becomes_an_ordinary_file(packed: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        content = {info.filename: archive.read(info) for info in archive.infolist()}
    link = zipfile.ZipInfo("exp/empty")
    link.external_attr = 0o120777 << 16
    changed = tmp_path / "link.zip"
    with zipfile.ZipFile(changed, "w") as archive:
        for name, old in content.items():
            archive.writestr(link if name == "exp/empty" else name, old)

    folder = unpack(changed, tmp_path / "results")

    assert not (folder / "empty").is_symlink()


def test_facts_of_a_folder_that_was_not_unpacked_are_none(tmp_path: Path) -> None:
    assert read_facts(tmp_path) is None
    (tmp_path / FACTS).write_text("{")
    with pytest.raises(StoreError, match="damaged"):
        read_facts(tmp_path)
    assert archive.FORMAT == 1
