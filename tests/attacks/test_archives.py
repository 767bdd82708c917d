"""Archives of pg_dump from a stranger: what pg_restore executes is found, wherever in the archive it stands."""

import asyncio
import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from pgtrial.experiment_file.experiment import Experiment
from pgtrial.postgres.connect import execute
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.workloads.archive import ArchiveError, read_entries
from pgtrial.workloads.data_files import data_files
from support.loading import empty_database, load

pytestmark = pytest.mark.pg

STATEMENTS = (
    "CREATE TABLE public.t (a text)",
    "INSERT INTO public.t VALUES ('x')",
    "CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$",
)
TABLE = b"CREATE TABLE public.t (\n    a text\n);\n"
FOUND = "a shell command of the server"


def dump(cluster: ThrowawayCluster, path: Path, *options: str) -> Path:
    """An honest dump of a table and a function."""
    with empty_database(cluster) as conninfo:
        for statement in STATEMENTS:
            asyncio.run(execute(conninfo, statement))
        argv = [cluster.programs.path("pg_dump"), f"--dbname={conninfo}", *options, f"--file={path}"]
        subprocess.run(argv, check=True, capture_output=True)
    return path


def text(content: bytes) -> bytes:
    return b"\0" + len(content).to_bytes(4, "little") + content


def with_text(archive: bytes, old: bytes, new: bytes) -> bytes:
    changed = archive.replace(text(old), text(new))
    assert changed != archive
    return changed


def evil(folder: Path) -> bytes:
    return f"COPY (SELECT 1) TO PROGRAM 'touch {folder}/mark';\n".encode()


def uses(folder: Path) -> list[str]:
    tables = {"format": 1, "experiment": {"name": "x"}, "workload": {"mix": "select-only"}, "arms": {"a": {}, "b": {}}}
    experiment = Experiment.model_validate(tables | {"dataset": {"kind": "sql", "load": ["d"]}})
    return [use.what for file in data_files(experiment, folder) for use in file.uses]


def contents(path: Path) -> list[tuple[str, bytes]]:
    with tarfile.open(path) as tar:
        return [(each.name, file.read()) for each in tar.getmembers() if (file := tar.extractfile(each))]


def tar_of(files: list[tuple[str, bytes]]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return made.getvalue()


@pytest.mark.parametrize("form", ["-Fc", "-Fd", "-Ft"])
def test_an_honest_archive_is_loaded_and_executes_nothing(served: ThrowawayCluster, tmp_path: Path, form: str) -> None:
    dump(served, tmp_path / "d", form)

    assert uses(tmp_path) == []
    with empty_database(served):
        load(served, tmp_path, "d")


def test_data_that_are_statements_are_listed(served: ThrowawayCluster, tmp_path: Path) -> None:
    directory = dump(served, tmp_path / "d", "-Fd", "-Z0", "--inserts")
    (data,) = (file for file in directory.glob("*.dat") if file.name != "toc.dat")
    data.write_bytes(evil(tmp_path) + b"\n\n")

    assert uses(tmp_path) == ["statements among the data, which are not looked at"]


def test_what_would_drop_a_function_is_executed_when_its_owner_gets_it(
    served: ThrowawayCluster, tmp_path: Path
) -> None:
    archive = dump(served, tmp_path / "d", "-Fc").read_bytes()
    drop = b"DROP FUNCTION public.f();\n"
    (tmp_path / "d").write_bytes(with_text(archive, drop, drop[:-2] + b" OWNER TO postgres; " + evil(tmp_path)))

    assert any(use.startswith(FOUND) for use in uses(tmp_path))


def test_of_two_contents_in_a_tar_file_the_first_counts(served: ThrowawayCluster, tmp_path: Path) -> None:
    (name, honest), *data = contents(dump(served, tmp_path / "d", "-Ft"))
    first = with_text(honest, TABLE, TABLE + evil(tmp_path))
    (tmp_path / "d").write_bytes(tar_of([(name, first), *data, (name, honest)]))

    assert any(use.startswith(FOUND) for use in uses(tmp_path))


def test_an_archive_that_could_be_a_tar_file_too_is_what_it_is_to_pg_restore(
    served: ThrowawayCluster, tmp_path: Path
) -> None:
    archive = with_text(dump(served, tmp_path / "d", "-Fc").read_bytes(), TABLE, TABLE + evil(tmp_path))
    harmless = tar_of(contents(dump(served, tmp_path / "t", "-Ft"))[:1])
    # The name of the database, which pg_restore does not need, is the rest of a header and the tar file behind it.
    at = len(b"PGDMP") + 6 + (1 if archive[6] >= 15 else 5) + 7 * 5
    rest = archive[at + 5 + int.from_bytes(archive[at + 1 : at + 5], "little") :]
    header = bytearray((archive[:at] + b"\0" + (512 + len(harmless) - at - 5).to_bytes(4, "little")).ljust(512, b"\0"))
    header[124:136], header[156:157], header[257:265] = b"00000000000\0", b"0", b"ustar\00000"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "d").write_bytes(bytes(header) + harmless + rest)
    assert tarfile.is_tarfile(tmp_path / "d")

    assert any(use.startswith(FOUND) for use in uses(tmp_path))


def test_a_header_that_names_another_file_to_others_is_refused(tmp_path: Path) -> None:
    header = bytearray(tarfile.TarInfo("x").tobuf(tarfile.USTAR_FORMAT))
    header[:100], header[345:346] = b"toc.dat".ljust(100, b"\0"), b"x"
    (tmp_path / "d").write_bytes(bytes(header) + bytes(1024))

    with pytest.raises(ArchiveError, match="does not begin with"):
        list(read_entries(tmp_path / "d"))
