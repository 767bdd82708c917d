"""Mutants of bundles, of the state directory, and of experiment files."""

import contextlib
import hashlib
import json
import random
import sqlite3
import struct
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

from pgtrial.export.archive import FACTS, SUMS
from pgtrial.hosts.processes import ProcessId
from pgtrial.knobs import HOST_KNOBS
from pgtrial.model.change import Change
from pgtrial.store.journal import Journal
from support.attack.values import SCALARS, TEXTS, any_value, mutate_bytes, mutate_text, mutate_tree
from support.simulation import DUET, EXPERIMENT, INTERLEAVED

_LARGE = 30 << 20  # bytes of zeros, of which a bundle takes little
_KNOBS = (*(knob.name for knob in HOST_KNOBS), "server", "x")
_MORE = """
[target]
kind = "throwaway"
postgres = "15"
directory = "/var/tmp"
[target.storage]
data = "/var/tmp"
[checks]
cpu_steal = 0.1
"""
_FIO = """\
format = 1
experiment = { name = "files" }
hypothesis = { claim = "b", arm = "b", expect = "better", metric = "throughput" }
[workload]
kind = "fio"
clients = 2
duration = "5s"
[[workload.job]]
name = "read"
pattern = "randread"
size = "4MB"
[arms.a]
[arms.b.sysctl]
"vm.swappiness" = 1
[design]
blocks = 2
"""
FILES = (EXPERIMENT, INTERLEAVED, DUET, EXPERIMENT + _MORE, _FIO)


# -- bundles -------------------------------------------------------------------------------------------------


def mutate_bundle(bundle: Path, rng: random.Random) -> None:
    """Damage a bundle, or forge one whose checksums are right."""
    if rng.random() < 0.25:
        bundle.write_bytes(mutate_bytes(rng, bundle.read_bytes()))
        return
    with zipfile.ZipFile(bundle) as archive:
        entries = [(info.filename, archive.read(info)) for info in archive.infolist()]
    top = entries[0][0].partition("/")[0]
    way = rng.choice(("manifest", "name", "content", "gone", "twice", "large", "many", "sums", "deep"))
    at = rng.randrange(len(entries))
    name, content = entries[at]
    if way == "manifest":
        at = next(i for i, (name, _) in enumerate(entries) if name.endswith(FACTS))
        text = json.dumps(mutate_tree(rng, json.loads(entries[at][1]))) if rng.random() < 0.7 else rng.choice(TEXTS)
        entries[at] = entries[at][0], text.encode("utf-8", "replace")
    elif way == "name":
        entries[at] = _name(rng, top, name), content
    elif way == "content":
        entries[at] = name, mutate_bytes(rng, content)
    elif way == "gone":
        del entries[at]
    elif way == "twice":
        entries.append((name, rng.choice((content, b"other"))))
    elif way == "large":
        entries[at] = name, b"\0" * _LARGE
    elif way == "many":
        entries += [(f"{top}/x{i}", b"") for i in range(rng.choice((100, 2000)))]
    elif way == "sums":
        at = next(i for i, (name, _) in enumerate(entries) if name.endswith(SUMS))
        entries[at] = entries[at][0], mutate_bytes(rng, entries[at][1])
    else:
        entries[at] = f"{top}/{'d/' * rng.choice((50, 2000))}x", content
    if way != "sums":
        entries = _summed(entries)
    _pack(bundle, entries, rng)


def _name(rng: random.Random, top: str, name: str) -> str:
    base = name.partition("/")[2]
    return rng.choice(
        (
            f"../{base}",
            f"/tmp/{base}",
            f"{top}/../../{base}",
            f"{top}//{base}",
            f"{top}/./{base}",
            f"other/{base}",
            f"{top}/{base}\n",
            f"{top}/{base.upper()}",
            f"{top}\\{base}",
            f"{top}/\x1b[2J{base}",
            f"{top}/{'x' * 300}",
            f"{top}/state.sqlite-journal",
            f"{top}/lock",
            f"{top}/runs",
            f"{top}/{base}/",
            top,
            "x",
        )
    )


def _summed(entries: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """The same with a list of checksums that fits."""
    lines = [
        f"{hashlib.sha256(content).hexdigest()}  {name.partition('/')[2]}\n"
        for name, content in entries
        if not name.endswith(SUMS)
    ]
    return [
        (name, "".join(lines).encode("utf-8", "surrogatepass") if name.endswith(SUMS) else content)
        for name, content in entries
    ]


def _pack(bundle: Path, entries: list[tuple[str, bytes]], rng: random.Random) -> None:
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in entries:
            info = zipfile.ZipInfo(name.replace("\0", "_"))
            info.compress_type = zipfile.ZIP_DEFLATED
            if rng.random() < 0.01:
                info.external_attr = 0o120777 << 16  # a link
            with contextlib.suppress(ValueError, UnicodeEncodeError):
                archive.writestr(info, content)
    if rng.random() < 0.1:  # a size that is a lie
        packed = bytearray(bundle.read_bytes())
        at = packed.find(b"PK\x01\x02")
        packed[at + 24 : at + 28] = struct.pack("<I", rng.choice((0, 1, 0xFFFFFFFE, 1 << 30)))
        bundle.write_bytes(packed)


def bundle_commands(rng: random.Random, bundle: Path, name: str) -> Sequence[Sequence[str]]:
    then = rng.choice(
        (
            *(("status", f"r/{name}"), ("report", f"r/{name}"), ("apply", f"r/{name}"), ("suggest", f"r/{name}")),
            *(("resume", f"r/{name}", "--work-directory", str(bundle)), ("serve", "r", "--port", "0")),
        )
    )
    return (("unpack", str(bundle), "--results", "r"), then)


# -- the state directory -------------------------------------------------------------------------------------


def make_state(directory: Path) -> None:
    """A journal with open changes, of hosts that cannot be reached and of this one, and the record of a folder."""
    (directory / "belongings").mkdir(mode=0o700, parents=True)
    owner = ProcessId(pid=2**22 + 1, start_ticks=1, boot_id="0" * 8)
    with Journal.open(write=True) as journal:
        for number, knob in enumerate(_KNOBS):
            change = Change(
                knob=knob,
                name="vm.swappiness",
                old={"/proc/sys/vm/swappiness": "60"},
                new={"/proc/sys/vm/swappiness": "1"},
                old_text="60",
                new_text="1",
            )
            host = "ssh://127.0.0.1:1" if number == 0 else "local"
            entry = journal.begin(change, host=host, boot_id="x", folder="/f", run=1, owner=owner, t=1.0)
            if number % 2:
                journal.confirm(entry, {"/proc/sys/vm/swappiness": "1"})
    lines: list[dict[str, Any]] = [
        {"folder": "/f"},
        {"pid": 2**22 + 1, "start_ticks": 5, "boot_id": "x", "role": "load"},
        {"directory": "/var/tmp/pgtrial-00000000", "host": "local", "variant": ""},
    ]
    (directory / "belongings" / f"{'0' * 32}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with contextlib.closing(sqlite3.connect(directory / "journal.sqlite")) as db:
        db.execute("PRAGMA journal_mode = DELETE")


def mutate_state(directory: Path, rng: random.Random) -> None:
    journal, record = directory / "journal.sqlite", directory / "belongings" / f"{'0' * 32}.jsonl"
    way = rng.randrange(10)
    if way <= 5:
        with contextlib.suppress(sqlite3.Error, OverflowError), contextlib.closing(sqlite3.connect(journal)) as db:
            db.execute("PRAGMA writable_schema = ON")
            db.execute("UPDATE sqlite_schema SET sql = replace(replace(sql, 'STRICT', ''), 'NOT NULL', '')")
            db.execute("PRAGMA writable_schema = RESET")
            db.execute("PRAGMA ignore_check_constraints = ON")
            columns = [row[1] for row in db.execute("PRAGMA table_info(entry)")]
            for _ in range(rng.choice((1, 1, 3))):
                column, row = rng.choice(columns), rng.randrange(1, len(_KNOBS) + 1)
                value = any_value(rng)
                if column in ("old", "new", "got") and rng.random() < 0.6:
                    value = mutate_tree(rng, {"/proc/sys/vm/swappiness": "1", "x": ["y"]})
                stored = json.dumps(value) if isinstance(value, list | dict) else value
                if isinstance(stored, str):
                    stored = stored.encode("utf-8", "replace").decode()
                db.execute(f'UPDATE OR IGNORE entry SET "{column}" = ? WHERE id = ?', (stored, row))
            db.commit()
    elif way <= 7:
        journal.write_bytes(mutate_bytes(rng, journal.read_bytes()))
    else:
        mutate_record(record, rng)


def mutate_record(record: Path, rng: random.Random) -> None:
    """Change what is on record as started and made for a folder."""
    if rng.random() < 0.5:
        lines = record.read_text().splitlines()
        at = rng.randrange(len(lines))
        lines[at] = json.dumps(mutate_tree(rng, json.loads(lines[at])))
        record.write_text("\n".join(lines) + "\n")
    else:
        record.write_bytes(mutate_bytes(rng, record.read_bytes()))


def state_commands(rng: random.Random) -> Sequence[Sequence[str]]:
    return rng.choice(
        ((("restore", "--dry-run"), ("restore",)), (("restore", "--json"),), (("restore", "--forget", "2"),))
    )


# -- experiment files ----------------------------------------------------------------------------------------


def mutate_file(text: str, rng: random.Random) -> str:
    if rng.random() < 0.4:
        for _ in range(rng.choice((1, 1, 3))):
            text = mutate_text(rng, text)
        return text
    tree = tomllib.loads(text)
    for _ in range(rng.choice((1, 1, 2, 5))):
        tree = mutate_tree(rng, tree, value=_toml_value)
    try:
        return tomli_w.dumps(tree) if isinstance(tree, dict) else ""
    except (TypeError, ValueError, AttributeError, RecursionError):
        return mutate_text(rng, text)


def _toml_value(rng: random.Random) -> Any:
    if rng.random() < 0.03:
        return ".".join("a" for _ in range(5000))
    return rng.choice([value for value in SCALARS if value is not None])


def file_commands(rng: random.Random, file: Path) -> Sequence[Sequence[str]]:
    return (
        rng.choice(
            (
                ("check", "--no-host", str(file)),
                ("check", "--no-host", str(file)),
                ("plan", str(file)),
                ("plan", "--json", str(file)),
                ("register", str(file)),
                ("limits", "--plan", str(file)),
            )
        ),
    )
