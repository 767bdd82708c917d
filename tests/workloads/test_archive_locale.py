import pytest

from pgtrial.workloads.archive import ArchiveError, read_locale


@pytest.mark.parametrize(
    ("statement", "options"),
    [
        (
            "CREATE DATABASE shop WITH TEMPLATE = template0 ENCODING = 'UTF8' LOCALE_PROVIDER = libc LOCALE = 'C';",
            {"ENCODING": "UTF8", "LOCALE_PROVIDER": "libc", "LOCALE": "C"},
        ),
        (
            (
                "CREATE DATABASE shop WITH TEMPLATE = template0 ENCODING = 'UTF8' LOCALE_PROVIDER = icu "
                "LC_COLLATE = 'de_DE' LC_CTYPE = 'C' ICU_LOCALE = 'de-DE' ICU_RULES = '&a < b; & x='';' "
                "TABLESPACE = fast;\nDROP DATABASE shop;"
            ),
            {
                "ENCODING": "UTF8",
                "LOCALE_PROVIDER": "icu",
                "LC_COLLATE": "de_DE",
                "LC_CTYPE": "C",
                "ICU_LOCALE": "de-DE",
                "ICU_RULES": "&a < b; & x=';",
            },
        ),
        (
            """CREATE DATABASE "a ENCODING = 'x' WITH ""b" WITH TEMPLATE = a ENCODING = 'LATIN1' LOCALE = 'C';""",
            {"ENCODING": "LATIN1", "LOCALE": "C"},
        ),
        (
            "CREATE DATABASE s WITH TEMPLATE = template0 ENCODING = 'UTF8' ICU_RULES = '& LOCALE = x' LOCALE = 'C';",
            {"ENCODING": "UTF8", "ICU_RULES": "& LOCALE = x", "LOCALE": "C"},
        ),
        ("CREATE DATABASE shop;", {}),
        ("CREATE DATABASE shop WITH ENCODING = " + "''" * 100_000, {}),  # of which nothing is to be tried twice
        ("", {}),
    ],
)
def test_encoding_and_collation_are_read_from_the_databases_statement(statement: str, options: dict[str, str]) -> None:
    assert dict(read_locale(statement)) == options


def test_a_value_that_is_longer_than_any_is_refused() -> None:
    statement = "CREATE DATABASE shop WITH ENCODING = 'UTF8' ICU_RULES = '{}' LOCALE = 'C';"

    assert dict(read_locale(statement.format("x" * 1000)))["ICU_RULES"] == "x" * 1000
    with pytest.raises(ArchiveError, match=r"ICU_RULES of its database has 1,001 characters"):
        read_locale(statement.format("x" * 1001))
