"""What would change an existing database, and when the file lets it."""

from collections.abc import Callable

import pytest

from pgtrial.errors import SpecProblem

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
