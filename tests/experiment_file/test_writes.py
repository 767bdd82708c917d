"""What would change an existing database, and when the file lets it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pgtrial.errors import SpecProblem
from pgtrial.experiment_file.load import examine

Find = Callable[..., dict[str, SpecProblem]]

EXISTING = "[target]\nkind = 'server'\ndatabase = 'shop'\n[dataset]\nkind = 'existing'\nscale = 1\n"
ARMS = "[arms.a]\n[arms.b]\n"
SQL = "[arms.c.sql]\napply = 'CREATE INDEX i ON t (a)'\nundo = 'DROP INDEX i'\n"


@pytest.mark.parametrize(
    ("more", "mix", "path"),
    [
        (SQL, "select-only", "arms.c.sql.apply"),
        ("[arms.c.extensions]\ncreate = ['citext']\n", "select-only", "arms.c.extensions.create"),
        ("[arms.c.postgresql]\ndefault_transaction_read_only = false\n", "select-only",
         "arms.c.postgresql.default_transaction_read_only"),
        ("", "oltp", "workload.mix"),
        ("", "simple-update", "workload.mix"),
    ],
)  # fmt: skip
def test_a_database_that_was_there_is_read_only_unless_the_file_says_otherwise(
    find: Find, more: str, mix: str, path: str
) -> None:
    problem = find(EXISTING + more, mix=mix)[path]

    assert 'the database "shop"' in problem.message
    assert "pgtrial copy" in problem.hint
    assert path not in find(EXISTING.replace("[dataset]", "writes = true\n[dataset]") + more, mix=mix)


def test_what_only_reads_is_no_problem(find: Find) -> None:
    assert find(EXISTING + ARMS) == {}


def test_writes_have_no_meaning_where_the_database_is_pgtrials_own(find: Find) -> None:
    own = "[target]\nkind = 'server'\nwrites = true\n"

    assert list(find(own + ARMS)) == ["target.writes"]
    assert set(find("[target]\nwrites = true\nsettings = 'server'\n" + ARMS)) == {"target.writes", "target.settings"}


@pytest.mark.parametrize("where", ["workload.scenario[0].file", "arms.b.workload.scripts.s"])
@pytest.mark.parametrize("name", ["transaction_read_only", 'U&"transaction\\005fread\\005fonly"'])
def test_no_script_gives_itself_the_right_to_write(tmp_path: Path, where: str, name: str) -> None:
    (tmp_path / "read.sql").write_text("SELECT 1;\n")
    (tmp_path / "write.sql").write_text(f"SET {name} = off;\nDELETE FROM t;\n")
    first, other = ("write", "read") if where.startswith("workload") else ("read", "write")
    text = f"""format = 1
[experiment]
name = "x"
[target]
kind = "server"
database = "shop"
[dataset]
kind = "existing"
[workload]
scenario = [{{ name = "s", file = "{first}.sql" }}]
[arms.a]
[arms.b.workload]
scripts = {{ s = "{other}.sql" }}
"""

    problems = {problem.path: problem for problem in examine(text, tmp_path).problems}

    assert list(problems) == [where]
    assert "would let the script write to a read-only database" in problems[where].message
