import re
import tomllib
from pathlib import Path

import pytest

from pgtrial.errors import StoreError
from pgtrial.export.bundle import copy_folder
from pgtrial.export.redaction import Redaction
from pgtrial.store import layout
from support import EXPERIMENT, write_result_folder

QUERY = "SELECT secret_name FROM customers WHERE id = :id;"
TEXT = (
    EXPERIMENT.replace('mix = "simple-update"', 'scenario = [{ name = "lookup", file = "lookup.sql" }]')
    .replace(
        "[arms.off.postgresql]",
        '[arms.off.sql]\napply = "CREATE INDEX ON customers (secret_name)"\n[arms.off.postgresql]',
    )
    .replace("[workload]", '[target]\nhost = "ssh://alice@db7.corp"\n[workload]\n# password=hunter2xyz')
    .replace("blocks = 6", "blocks = 2")
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = write_result_folder(tmp_path / "commit-1", text=TEXT, runs=3)
    (made / layout.FILES).mkdir()
    (made / layout.FILES / "lookup.sql").write_text(f"\\set id 1\n{QUERY}\n")
    (made / "notes.txt").write_text("db7 is slow")
    (made / layout.LOCK).touch()
    (made / layout.FINDINGS).write_text("{}")
    (made / layout.REPORT).write_text("db7")
    run = next((made / layout.RUNS).iterdir())
    (run / "logs").mkdir()
    (run / "logs" / "pgbench.1").write_text("db7")
    (run / "more.txt").write_text("db7")
    return made


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_everything_that_belongs_to_the_results_is_copied(folder: Path, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    to.mkdir()

    copied = copy_folder(folder, to)

    run = next((folder / layout.RUNS).glob("0001*")).name
    left = {layout.LOCK, layout.FINDINGS, layout.REPORT}
    raw = [name for name in names(folder) if name.endswith("logs/pgbench.1")]
    assert names(folder) - names(to) == {*left, *raw}
    assert copied.left_out == tuple(raw)
    assert (copied.name, copied.still_in) == ("commit-1", ())
    assert (to / layout.EXPERIMENT).read_text() == TEXT
    assert (to / layout.RUNS / run / layout.SAMPLES).is_file()


def test_with_something_to_take_out_only_known_files_are_copied(folder: Path, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    to.mkdir()

    copied = copy_folder(folder, to, Redaction)

    assert set(copied.left_out) == {
        name for name in names(folder) if name.endswith(("notes.txt", "logs/pgbench.1", "more.txt"))
    }
    for path in to.rglob("*"):
        if path.is_file() and path.name != layout.TRANSACTIONS:
            content = path.read_bytes().lower()
            assert not [
                word for word in (b"db7", b"alice", b"hunter2", b"customers", b"secret_name") if word in content
            ]
    script = (to / layout.FILES / "lookup.sql").read_text()
    assert re.fullmatch(r"-- query\d+: this script was taken out of the bundle\.\n", script)


def test_the_experiment_stays_one(folder: Path, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    to.mkdir()
    copy_folder(folder, to, [Redaction.HOSTS])

    text = (to / layout.EXPERIMENT).read_text()

    assert 'host = "ssh://user@host1"' in text
    assert 'apply = "CREATE INDEX ON customers (secret_name)"' in text
    assert "#" not in text
    assert list(map(text.index, ("[arms.on", "[arms.off"))) == sorted(map(text.index, ("[arms.on", "[arms.off")))
    assert QUERY in (to / layout.FILES / "lookup.sql").read_text()


def test_a_secret_among_the_arguments_of_a_command_is_known_by_what_stands_before_it(tmp_path: Path) -> None:
    text = EXPERIMENT.replace(
        "[workload]", '[target]\nkind = "server"\nrestart = ["restart-pg", "--token", "hunter2xyz"]\n[workload]'
    )
    made = write_result_folder(tmp_path / "commit-1", text=text, runs=1)
    to = tmp_path / "copy"
    to.mkdir()

    copy_folder(made, to, [Redaction.SECRETS])

    copied = tomllib.loads((to / layout.EXPERIMENT).read_text())
    assert copied["target"]["restart"] == ["restart-pg", "--token", "secret1"]


def test_links_that_lead_out_of_the_folder_are_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "passwd").write_text("root")
    (folder / "linked").symlink_to(tmp_path / "outside")
    (folder / "passwd").symlink_to(tmp_path / "outside" / "passwd")
    to = tmp_path / "copy"
    to.mkdir()

    copy_folder(folder, to)

    assert not [name for name in names(to) if "passwd" in name or "linked" in name]
    (folder / layout.FILES / "link.sql").symlink_to(tmp_path / "outside" / "passwd")
    with pytest.raises(StoreError, match="is a link, and pgtrial follows none"):
        copy_folder(folder, to)


def test_bundles_and_what_they_are_prepared_in_are_not_packed_again(folder: Path) -> None:
    to = folder / ".pgtrial-abc"
    to.mkdir()
    (folder / "old.pgtrial.zip").touch()

    copy_folder(folder, to)

    assert not [name for name in names(to) if "pgtrial" in name]


def test_names_that_no_archive_can_have_are_left_out(folder: Path, tmp_path: Path) -> None:
    for name in ("a\\b.txt", "a\x1b[31m.txt"):
        (folder / name).touch()
    odd = folder.rename(folder.with_name("results \x1b[31m of db7"))
    to = tmp_path / "copy"
    to.mkdir()

    copied = copy_folder(odd, to)

    assert {"a\\b.txt", "a\x1b[31m.txt"} <= set(copied.left_out)
    assert copied.name == "results_31m_of_db7"


def test_arms_that_are_named_after_sql_cannot_be_redacted(tmp_path: Path) -> None:
    text = EXPERIMENT.partition("[arms.on")[0] + (
        '[factors.apply]\nknob = "sql"\nlevels = ["SELECT 1", "SELECT 2"]\n[design]\nblocks = 2\n'
    )
    folder = write_result_folder(tmp_path / "factors", text=text, runs=0)
    to = tmp_path / "copy"
    to.mkdir()

    with pytest.raises(StoreError, match="arms are named after the SQL of a factor"):
        copy_folder(folder, to, [Redaction.QUERIES])


def test_a_name_that_the_file_needs_is_an_error_and_not_another_experiment(tmp_path: Path) -> None:
    text = EXPERIMENT.replace("[workload]", '[target]\nhost = "ssh://simple-update"\n[workload]')
    folder = write_result_folder(tmp_path / "odd", text=text, runs=0)
    to = tmp_path / "copy"
    to.mkdir()

    with pytest.raises(StoreError, match="cannot be understood without the redacted words"):
        copy_folder(folder, to, [Redaction.HOSTS])


def test_names_that_users_gave_are_reported_when_they_tell_a_host(tmp_path: Path) -> None:
    text = EXPERIMENT.replace('name = "commit"', 'name = "on-db7"').replace(
        "[workload]", '[target]\nhost = "ssh://db7"\n[workload]'
    )
    folder = write_result_folder(tmp_path / "on-db7-20260120", text=text, runs=0)
    to = tmp_path / "copy"
    to.mkdir()

    copied = copy_folder(folder, to, [Redaction.HOSTS])

    assert copied.still_in == ("on-db7", "on-db7-20260120")


def test_what_is_no_result_folder_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a result folder"):
        copy_folder(tmp_path, tmp_path)
    assert list(tmp_path.iterdir()) == []
