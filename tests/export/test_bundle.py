import contextlib
import json
import sqlite3
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.errors import StoreError
from pgtrial.export.archive import FACTS, SUMS, unpack
from pgtrial.export.bundle import Bundled, write_bundle
from pgtrial.export.redaction import Redaction
from pgtrial.findings.caveat import caveat_in_words
from pgtrial.findings.findings import Findings
from pgtrial.model.caveat import Severity
from pgtrial.store import layout
from pgtrial.store.samples import WaitRow, write_waits
from pgtrial.store.state import State
from support import EXPERIMENT, write_result_folder

HOST, ADDRESS, SECRET = "bench-frodo.corp.example", "10.11.12.13", "hunter2xyz"
STATEMENT = "SELECT secret_name FROM customers WHERE id = ?"
# None of them stands in the library of the report, as "alice" does (aliceblue).
TOLD = ("frodo", ADDRESS, SECRET, "secret_name", "customers", "gandalf", "s3cr3t")
TEXT = (
    EXPERIMENT.replace('mix = "simple-update"', 'scenario = [{ name = "lookup", file = "lookup.sql" }]')
    .replace("[workload]", f'[target]\nhost = "ssh://gandalf@{HOST}"\n[workload]\n# password={SECRET}')
    .replace('claim = "', f'claim = "On {HOST}: ')
    .replace("blocks = 6", "blocks = 2")
    .replace("placebo = true", "placebo = false")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result folder with something to hide in every file."""
    made = write_result_folder(tmp_path_factory.mktemp("results") / "commit-20260120T101500Z", text=TEXT)
    (made / layout.FILES).mkdir()
    (made / layout.FILES / "lookup.sql").write_text(f"{STATEMENT.replace('?', ':id')};\n")
    with contextlib.closing(State.open(made, write=True)) as state:
        for run in state.runs():
            rows = [
                ("primary_conninfo", f"host={HOST} password={SECRET}", "file"),
                ("archive_command", "s3cr3t", "file"),
            ]
            state.add_settings(run.id, rows)
            state.add_fingerprint({"storage/data source": f"{HOST}:/export"}, run=run.id)
            state.add_event(run.started or 0.0, "restored", run=run.id, text=f"gandalf@{ADDRESS}")
            hide(made / layout.RUNS / run.folder, started=run.phases[-1].start)
        state.add_caveat(caveat_in_words("no-host", Severity.INFO, f"{HOST} is out of reach", "s3cr3t"))
    return made


@pytest.fixture(scope="module")
def before(folder: Path) -> Mapping[Path, bytes]:
    """What was in the folder before anything was made of it."""
    return contents(folder)


def contents(folder: Path) -> Mapping[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def findings(folder: Path, before: Mapping[Path, bytes]) -> Findings:
    return analyze(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A bundle, and the folder that a colleague has of it."""

    made: Bundled
    unpacked: Path


Send = Callable[[tuple[Redaction, ...]], Sent]


@pytest.fixture(scope="module")
def send(folder: Path, before: Mapping[Path, bytes], tmp_path_factory: pytest.TempPathFactory) -> Send:
    """A bundle without something, which is made once; what is there of it is not to be changed."""

    @cache
    def bundle(kinds: tuple[Redaction, ...]) -> Sent:
        place = tmp_path_factory.mktemp("sent")
        made = write_bundle(folder, place / "out.zip", kinds)
        return Sent(made=made, unpacked=unpack(made.packed.path, place / "results"))

    return bundle


def hide(run: Path, *, started: float) -> None:
    waits = [
        WaitRow(started + second, 10, "client backend", "pgtrial/lookup", "active", "IO", "WALSync", STATEMENT, 12)
        for second in range(10)
    ]
    write_waits(
        [*waits, WaitRow(started, 10, "client backend", f"psql {ADDRESS}", "active", "", "", "", 1)], run / layout.WAITS
    )
    lines = [
        {"message": "duration: 1200.5 ms  statement: " + STATEMENT.replace("?", "4711"), "remote_host": ADDRESS},
        {"message": 'automatic analyze of table "pgtrial.public.customers"', "backend_type": "autovacuum worker"},
        {"message": f"statement: ALTER ROLE app PASSWORD '{SECRET}'", "user": "gandalf"},
    ]
    common = {"timestamp": "2026-01-01 00:00:05.000 UTC", "error_severity": "LOG"}
    text = "".join(json.dumps({**common, **line}) + "\n" for line in lines)
    (run / layout.SERVER_LOG).write_text(text, encoding="utf-8")


def numbers(findings: Findings) -> tuple[Any, ...]:
    """What the findings say in figures, and what the verdict is."""
    asked = findings.hypothesis
    return (
        [each.model_dump(exclude={"caveats"}) for each in (*findings.effects, *findings.placebo)],
        findings.observations,
        findings.curve,
        findings.series,
        findings.distributions,
        findings.waits,
        (asked.verdict, asked.margin, asked.arm, asked.control),
        [(caveat.code, caveat.severity) for caveat in findings.caveats],
        [(run.state, run.arm, run.block, run.tps) for run in findings.runs],
    )


def every_text(folder: Path) -> str:
    """All that is written in a folder, with what is compressed in it."""
    parts = [str(path.relative_to(folder)) for path in folder.rglob("*")]
    for path in folder.rglob("*"):
        if path.suffix == ".parquet":
            parts += map(str, duckdb.sql(f"SELECT * FROM read_parquet('{path}')").fetchall())
        elif path.is_file():
            parts.append(path.read_bytes().decode("utf-8", "replace"))
    with contextlib.closing(sqlite3.connect(folder / layout.STATE)) as db:
        parts += db.iterdump()
    return "\n".join(parts).lower()


def test_a_colleague_concludes_the_same(send: Send, findings: Findings) -> None:
    unpacked = send(()).unpacked

    assert unpacked.name == "commit-20260120T101500Z"
    assert analyze(unpacked) == findings
    assert Findings.model_validate_json((unpacked / layout.FINDINGS).read_text()) == findings
    assert (unpacked / layout.REPORT).read_text().startswith("<!doctype html>")


def test_without_secrets_hosts_and_queries_he_still_concludes_the_same(send: Send, findings: Findings) -> None:
    unpacked = send(tuple(Redaction)).unpacked

    found = analyze(unpacked)

    *others, caveats, runs = numbers(found)
    assert (*others, [caveat for caveat in caveats if caveat[0] != "plan-redacted"], runs) == numbers(findings)
    assert "plan-redacted" in {code for code, _ in caveats}
    assert found.experiment.digest == findings.experiment.digest
    assert json.loads((unpacked / FACTS).read_text())["redacted"] == ["secrets", "hosts", "queries"]


def test_nothing_of_what_was_taken_out_is_anywhere_in_the_bundle(folder: Path, send: Send) -> None:
    hidden = every_text(folder)
    assert [word for word in TOLD if word not in hidden] == []

    sent = send(tuple(Redaction))
    text, packed = every_text(sent.unpacked), sent.made.packed.path.read_bytes().lower()

    assert [word for word in TOLD if word in text] == []
    assert [word for word in TOLD if word.encode() in packed] == []


@pytest.mark.parametrize(
    ("kind", "gone", "there"),
    [
        (Redaction.SECRETS, (SECRET, "s3cr3t"), ("frodo", ADDRESS, "customers")),
        (Redaction.HOSTS, ("frodo", ADDRESS, "gandalf"), (SECRET, "customers")),
        (Redaction.QUERIES, ("secret_name", "customers"), (SECRET, "frodo", ADDRESS)),
    ],
)
def test_only_what_was_asked_for_is_taken_out(
    send: Send, kind: Redaction, gone: tuple[str, ...], there: tuple[str, ...]
) -> None:
    text = every_text(send((kind,)).unpacked)

    assert [word for word in gone if word in text] == []
    assert [word for word in there if word not in text] == []


@pytest.mark.parametrize("kinds", [(), tuple(Redaction)], ids=["whole", "redacted"])
def test_the_same_folder_gives_the_same_bundle(
    folder: Path, tmp_path: Path, send: Send, kinds: tuple[Redaction, ...]
) -> None:
    again = write_bundle(folder, tmp_path / "again.zip", kinds)

    assert again.packed.sha256 == send(kinds).made.packed.sha256


def test_a_bundle_of_an_unpacked_folder_remembers_what_was_taken_out_before(tmp_path: Path, send: Send) -> None:
    once = send((Redaction.HOSTS,)).unpacked

    again = write_bundle(once, tmp_path / "2.zip", [Redaction.QUERIES])

    with zipfile.ZipFile(again.packed.path) as archive:
        facts = json.loads(archive.read(f"{once.name}/{FACTS}"))
        assert sorted(name for name in archive.namelist() if name.endswith((FACTS, SUMS))) == [
            f"{once.name}/{SUMS}",
            f"{once.name}/{FACTS}",
        ]
    assert facts["redacted"] == ["hosts", "queries"]


def test_the_folder_is_only_read(folder: Path, before: Mapping[Path, bytes], send: Send) -> None:
    send(tuple(Redaction))

    assert contents(folder) == before


def test_an_experiment_without_a_valid_run_can_be_sent_too(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "none", runs=0)

    unpacked = unpack(write_bundle(folder, tmp_path / "out.zip", Redaction).packed.path, tmp_path / "results")

    assert analyze(unpacked).hypothesis.verdict == "invalid"


def test_a_place_that_cannot_be_written_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot write a bundle in"):
        write_bundle(folder, tmp_path / "missing" / "out.zip")


def test_what_is_no_result_folder_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a result folder"):
        write_bundle(tmp_path, tmp_path / "out.zip")

    assert list(tmp_path.iterdir()) == []
