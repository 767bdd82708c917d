import tomllib

import pytest

from pgtrial.errors import SpecError
from pgtrial.experiment_file.copy_text import for_database, for_dump

FILE = """format = 1
[experiment]
name = "x"
[target]
kind = "server"  # ours
connection = "host=db1"
database = "erp"
"""


def test_copy_on_the_server_may_be_written() -> None:
    assert tomllib.loads(for_database(FILE, "erp_copy", original="erp"))["target"] == {
        "kind": "server",
        "connection": "host=db1",
        "database": "erp_copy",
        "copy_of": "erp",
        "writes": True,
    }


def test_dump_is_loaded_into_a_throw_away_cluster() -> None:
    made = tomllib.loads(for_dump(FILE, "/d/erp.dump", version=16))

    assert made["target"] == {"kind": "throwaway", "postgres": "16"}
    assert made["dataset"] == {"kind": "sql", "load": "/d/erp.dump"}


@pytest.mark.parametrize("name", ['a"b', "a\nb", "a\x7f", "a\\u", "\U0001f600", "\x1b[2J", "]\n[hooks]"])
def test_any_name_of_a_database_is_written_as_it_is(name: str) -> None:
    assert tomllib.loads(for_database(FILE, name, original="erp"))["target"]["database"] == name


@pytest.mark.parametrize(
    "text",
    [
        'target = { kind = "server", database = "erp" }\n[hypothesis]\nclaim = """\n[target]\n"""\n',
        'target.kind = "server"\ntarget.database = "erp"\n[hypothesis]\nclaim = """\n[target]\n"""\n',
        '["target"]\nkind = "server"\ndatabase = "erp"\n',
        "[target]\nkind = 'server'\n\"database\" = 'erp'\n",
        "[target]\nkind = 'server'\nconnection = '''\ndatabase = 'x'\n'''\ndatabase = 'erp'\n",
    ],
)
def test_a_file_that_would_name_the_original_still_is_not_written(text: str) -> None:
    """Run with --allow-writes as the copy, it would change the original."""
    with pytest.raises(SpecError, match="cannot be made out of this one"):
        for_database(text, "erp_copy", original="erp")
