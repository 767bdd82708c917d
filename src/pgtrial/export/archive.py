"""Pack a result folder into one file with checksums, to send and unpack elsewhere.

A zip archive with one directory in it; ``SHA256SUMS`` has the format of sha256sum. The same files give the same
archive: entries are sorted and have no timestamps.
"""

import hashlib
import json
import os
import re
import shutil
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from pgtrial.errors import StoreError
from pgtrial.safe_files import make_directories, new_directory, new_file, open_file, read_file
from pgtrial.safe_text import parse_json
from pgtrial.units import format_bytes

FORMAT = 1
FACTS, SUMS = "bundle.json", "SHA256SUMS"
SUFFIX = ".pgtrial.zip"
TEMPORARY = ".pgtrial-"  # how directories begin in which one is prepared
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first that a zip archive can have
_PACKED = (".parquet",)  # has been compressed already
_CHUNK = 1 << 20  # bytes
_DEEPEST = 8  # parts of a name; ours have four
_LONGEST_LIST = 1 << 20  # bytes of the list of files; one of 1,000 runs has some 500 kB
_LONGEST_END = 65_557 + 20  # bytes of what comes behind it
_MOST_DENSE, _NO_MATTER = 50, 1 << 30  # packed text takes a tenth; that much is read at once
_LARGEST_TEXT = 64 << 20  # bytes, of the list of checksums: more is no list of ours


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFacts:
    """What bundle.json says. ``redacted`` is what was taken out, ``left_out`` the number of files that were not packed:
    their names could tell what is not to be told.
    """

    pgtrial_version: str
    redacted: tuple[str, ...] = ()
    left_out: int = 0
    format: int = field(default=FORMAT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A finished archive: its size in bytes, the number of files in it, and its own SHA-256."""

    path: Path
    size: int
    files: int
    sha256: str


def pack(name: str, files: Mapping[str, Path], out: Path, *, facts: BundleFacts) -> Packed:
    """Write the files, by their names in the folder, into the archive ``out``: whole, or not at all.

    ``name`` is that of the directory in the archive. Raises StoreError.
    """
    try:
        with new_file(out) as target, zipfile.ZipFile(target, "w", allowZip64=True) as archive:
            text = json.dumps(asdict(facts), indent=1, ensure_ascii=False) + "\n"
            sums = {FACTS: _add_text(archive, f"{name}/{FACTS}", text)}
            for file in sorted(files):
                sums[file] = _add_file(archive, f"{name}/{file}", files[file])
            _add_text(archive, f"{name}/{SUMS}", "".join(f"{sums[file]}  {file}\n" for file in sorted(sums)))
        return Packed(path=out, size=out.stat().st_size, files=len(sums), sha256=_sum_of(out))
    except OSError as err:
        raise StoreError(f'cannot write "{out}": {err.strerror or err}') from err


def verify(bundle: Path, *, room: Path | None = None) -> tuple[str, BundleFacts]:
    """Compare every file of an archive with its checksum; the name of the folder in it, and what bundle.json says.

    StoreError names what is wrong: no such archive, one of a newer format, a file that is damaged, missing or not
    listed, or a name that would lead out of the folder; before anything is read, also one that holds more than there
    is ``room`` for in a directory.
    """
    with _opened(bundle) as archive:
        name, files = _listed(bundle, archive)
        _check_size(bundle, files, room)
        sums = _read_sums(bundle, archive, files)
        facts = _read_facts(bundle, archive, files)
        unknown, missing = sorted(files.keys() - sums.keys() - {SUMS}), sorted(sums.keys() - files.keys())
        if unknown or missing:
            which = f'"{unknown[0]}", which is not in its list' if unknown else f'no "{missing[0]}", which is'
            raise StoreError(f'"{bundle}" is damaged: it has {which}', detail=f"The list is {SUMS} in it.", hint=_AGAIN)
        for file, expected in sums.items():
            if _hash(archive, files[file]) != expected:
                raise StoreError(f'"{bundle}" is damaged: the checksum of "{file}" does not match', hint=_AGAIN)
    return name, facts


def unpack(bundle: Path, results: Path) -> Path:
    """Verify an archive and unpack it into a new folder in ``results``; the folder. Raises StoreError as verify()."""
    name, _ = verify(bundle, room=results)
    folder = results / name
    if os.path.lexists(folder):
        raise StoreError(
            f'"{folder}" already exists',
            hint="Choose another location with --results, or remove that folder if it is the same.",
        )
    try:
        make_directories(results)
        with _opened(bundle) as archive, new_directory(folder) as directory:
            for file, info in _listed(bundle, archive)[1].items():
                if file != SUMS:  # report and findings will be made anew, and the list would not fit them any more
                    with archive.open(info) as source, directory.new_file(*file.split("/")) as target:
                        shutil.copyfileobj(source, target, _CHUNK)
    except (OSError, *_DAMAGES) as err:
        raise StoreError(f'cannot write "{folder}": {getattr(err, "strerror", None) or err}') from err
    return folder


def _check_size(bundle: Path, files: Mapping[str, zipfile.ZipInfo], room: Path | None) -> None:
    """A small archive may hold more than anybody has time or room for. No entry has more bytes than it announces."""
    needed, packed = sum(info.file_size for info in files.values()), bundle.stat().st_size
    if needed > max(_NO_MATTER, _MOST_DENSE * packed):
        raise StoreError(
            f'"{bundle}" is not a bundle: {format_bytes(packed)} that hold {format_bytes(needed)}', hint=_NO_BUNDLE
        )
    if room is None:
        return
    place = next(each for each in (room.absolute(), *room.absolute().parents) if each.is_dir())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise StoreError(
            f'"{bundle}" holds {format_bytes(needed)}, and "{place}" has room for {format_bytes(free)}',
            hint="Choose another location with --results.",
        )


def read_facts(folder: Path) -> BundleFacts | None:
    """bundle.json of a folder that was unpacked; None of one that was not. Raises StoreError."""
    path = folder / FACTS
    try:
        return _parse_facts(path, read_file(path, limit=_LARGEST_TEXT))
    except FileNotFoundError:
        return None
    except OSError as err:
        raise StoreError(f'cannot read "{path}": {err.strerror}') from err


_AGAIN = "Ask for the file again, and compare its SHA-256 with what the sender's pgtrial said."
_NO_BUNDLE = 'Name a file that "pgtrial export FOLDER --bundle" made.'
_DAMAGES = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, ValueError)


@contextmanager
def _opened(bundle: Path) -> Iterator[zipfile.ZipFile]:
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open_file(bundle, follow=True))
            if _size_of_list(file) > _LONGEST_LIST:
                raise StoreError(f'"{bundle}" is not a bundle: it has too many files', hint=_NO_BUNDLE)
            archive = stack.enter_context(zipfile.ZipFile(file))
        except OSError as err:
            raise StoreError(f'cannot read "{bundle}": {err.strerror or err}', hint=_NO_BUNDLE) from err
        except _DAMAGES as err:
            raise StoreError(f'"{bundle}" is not a bundle: {err}', hint=_NO_BUNDLE) from err
        yield archive


def _size_of_list(file: BinaryIO) -> int:
    """Bytes of the archive's list of files, which zipfile reads as a whole; 0 where it has none.

    Source: PKWARE's APPNOTE.TXT, 4.3.14 to 4.3.16.
    """
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - _LONGEST_END))
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < 16:
        return 0
    (size,) = struct.unpack_from("<L", tail, at + 12)
    if tail[max(0, at - 20) : at].startswith(b"PK\x06\x07"):  # of the larger kind
        (place,) = struct.unpack_from("<Q", tail, at - 12)
        file.seek(min(place, end))
        larger = file.read(56)
        size = struct.unpack_from("<Q", larger, 40)[0] if len(larger) == 56 else 0
    return int(size)


def _listed(bundle: Path, archive: zipfile.ZipFile) -> tuple[str, dict[str, zipfile.ZipInfo]]:
    """The one directory of the archive, and its files by their names in it."""
    files: dict[str, zipfile.ZipInfo] = {}
    names = set()
    for info in archive.infolist():
        parts = PurePosixPath(info.filename).parts
        is_odd = info.filename.startswith("/") or "\\" in info.filename or not info.filename.isprintable()
        is_odd |= not {"..", "."}.isdisjoint(info.filename.split("/"))
        is_odd |= len(parts) > _DEEPEST
        is_odd |= info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # as they are packed here
        if is_odd or len(parts) < 2 or info.is_dir() or "/".join(parts[1:]) in files:
            raise StoreError(f'"{bundle}" is not a bundle: it has an entry "{_shown(info.filename)}"', hint=_NO_BUNDLE)
        names.add(parts[0])
        files["/".join(parts[1:])] = info
    if len(names) != 1:
        raise StoreError(f'"{bundle}" is not a bundle: it has {len(names)} folders, not one', hint=_NO_BUNDLE)
    (name,) = names
    if name != portable(name):  # nothing that a shell would take for more than a name
        raise StoreError(f'"{bundle}" is not a bundle: it has a folder "{_shown(name)}"', hint=_NO_BUNDLE)
    return name, files


def portable(name: str) -> str:
    """The name as every file system and archive can have it."""
    return re.sub(r"[^\w.,+=-]+", "_", name).strip(".") or "results"


def _read_sums(bundle: Path, archive: zipfile.ZipFile, files: Mapping[str, zipfile.ZipInfo]) -> dict[str, str]:
    sums = {}
    for line in _read_text(bundle, archive, files, SUMS).splitlines():
        expected, separator, file = line.partition("  ")
        if not separator or len(expected) != 64:
            raise StoreError(f'"{bundle}" is damaged: {SUMS} in it has a line that is not a checksum', hint=_AGAIN)
        sums[file] = expected
    return sums


def _read_facts(bundle: Path, archive: zipfile.ZipFile, files: Mapping[str, zipfile.ZipInfo]) -> BundleFacts:
    return _parse_facts(bundle, _read_text(bundle, archive, files, FACTS).encode())


def _parse_facts(path: Path, content: bytes) -> BundleFacts:
    try:
        found = parse_json(content)
        number = found["format"]
        if isinstance(number, int) and number > FORMAT:
            raise StoreError(
                f'"{path}" has format {number} of bundles, this pgtrial reads up to format {FORMAT}',
                hint="Use the pgtrial version that made it, or a newer one.",
            )
        return BundleFacts(
            pgtrial_version=str(found["pgtrial_version"]),
            redacted=tuple(map(str, found["redacted"])),
            left_out=int(found["left_out"]),
            format=int(number),
        )
    except (ValueError, LookupError, TypeError, OverflowError) as err:
        raise StoreError(f'"{path}" is damaged: {FACTS} is not what it should be', hint=_AGAIN) from err


def _read_text(bundle: Path, archive: zipfile.ZipFile, files: Mapping[str, zipfile.ZipInfo], name: str) -> str:
    if name not in files or files[name].file_size > _LARGEST_TEXT:
        raise StoreError(f'"{bundle}" is not a bundle: it has no {name}', hint=_NO_BUNDLE)
    try:
        return archive.read(files[name]).decode()
    except (*_DAMAGES, OSError) as err:
        raise StoreError(f'"{bundle}" is damaged: cannot read {name} in it', hint=_AGAIN) from err


def _hash(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> str:
    """SHA-256 of an entry; "" where it cannot be read."""
    digest = hashlib.sha256()
    try:
        with archive.open(info) as file:
            for chunk in iter(lambda: file.read(_CHUNK), b""):
                digest.update(chunk)
    except (*_DAMAGES, OSError):  # one of the disk, or of an entry that is said to lie before the file
        return ""
    return digest.hexdigest()


def _entry(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_STORED if name.endswith(_PACKED) else zipfile.ZIP_DEFLATED
    info.create_system = 3  # Unix, whatever this is: it decides how rights are read
    info.external_attr = 0o100644 << 16
    return info


def _add_text(archive: zipfile.ZipFile, name: str, text: str) -> str:
    content = text.encode()
    archive.writestr(_entry(name), content)
    return hashlib.sha256(content).hexdigest()


def _add_file(archive: zipfile.ZipFile, name: str, path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as source, archive.open(_entry(name), "w", force_zip64=True) as target:
        for chunk in iter(lambda: source.read(_CHUNK), b""):
            digest.update(chunk)
            target.write(chunk)
    return digest.hexdigest()


def _sum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _shown(name: str) -> str:
    return name.encode("unicode_escape").decode("ascii")[:100]
