r"""What psql takes for a command and what for data is what is taken for it here; psql itself is asked."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.postgres.connect import execute
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.workloads.psql_script import PsqlScript
from support.loading import empty_database
from support.psql_files import make_file, run_psql, seen_in

# Of each psql 15 executes the command; a scanner that is a little simpler takes it for data or a part of a string.
TRICKS = {
    "parenthesis": "SELECT (;\nCOPY t FROM stdin;\n{command}\n\\.\n",
    "body of a routine": "CREATE PROCEDURE p() BEGIN ATOMIC SELECT 1;\nCOPY t FROM stdin;\n{command}\n\\.\n",
    "body by a variable": "\\set c create\n:c FUNCTION f() BEGIN ;\nCOPY t FROM stdin;\n{command}\n\\.\n",
    "doubled quote with escapes": "SELECT E'a''\\';\nCOPY t FROM stdin;\n' {command}\n\\.\n",
    "dollars behind dollars": "SELECT $$a$$$$;\nCOPY t FROM stdin;\n$$ {command}\n\\.\n",
    "dollars behind a number": "SELECT 1$$;\nCOPY t FROM stdin;\n$$ {command}\n\\.\n",
    "escapes behind a dollar": "SELECT $e'\\';\nCOPY t FROM stdin;\n' {command}\n\\.\n",
    "escapes by a variable": "\\set e x\nSELECT :e'\\' {command}\n",
    "end of a comment": "-- x\r/*\nCOPY t FROM stdin;\n*/ {command}\n\\.\n",
    "mark of UTF-8": "\ufeff$$\nCOPY t FROM stdin;\n$$ {command}\n\\.\n",
    "end of a string of the line before": "SELECT 'a\n' {command} \\\\ --'\n",
    "command of a string that ends": "SELECT $$\n\\e $$ {command}\n",
}


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("command", ["\\! id", "\\o |id", "\\w |id", "\\copy t from '/etc/passwd'", "\\watch 1"])
def test_a_hidden_command_is_told(tmp_path: Path, trick: str, command: str) -> None:
    (tmp_path / "load.sql").write_text(TRICKS[trick].format(command=command))

    try:
        found = [use.what for use in PsqlScript.read(tmp_path / "load.sql").uses]
    except ValueError as err:
        found = [str(err)]

    assert any(command.split(maxsplit=1)[0] in what or "/etc/passwd" in what for what in found), found


@pytest.fixture
def database(served: ThrowawayCluster) -> Iterator[str]:
    with empty_database(served) as conninfo:
        asyncio.run(execute(conninfo, "CREATE TABLE public.t (a text); GRANT ALL ON public.t TO PUBLIC"))
        yield conninfo


@pytest.mark.pg
@pytest.mark.parametrize("trick", TRICKS)
def test_psql_executes_what_is_told(served: ThrowawayCluster, tmp_path: Path, database: str, trick: str) -> None:
    """The tricks are ones: else the tests above prove nothing."""
    (tmp_path / "a.sql").write_text(TRICKS[trick].format(command="\\echo HIT1X"))

    assert b"HIT1X" in run_psql(served.programs.path("psql"), database, tmp_path / "a.sql")


@pytest.mark.pg
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_psql_sees_no_command_that_is_not_looked_at(
    served: ThrowawayCluster, tmp_path: Path, database: str, seed: int
) -> None:
    rng = random.Random(seed)
    printed = 0
    for number in range(60):
        file = tmp_path / f"{number}.sql"
        file.write_text(make_file(rng))
        marks = run_psql(served.programs.path("psql"), database, file)
        printed += len(marks)

        seen = seen_in(file)
        assert {mark for mark in marks if mark not in seen} == set(), file.read_text()
    assert printed > 10  # psql came far enough for something to be missed
