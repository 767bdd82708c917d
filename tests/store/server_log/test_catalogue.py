import base64
import gettext
import zlib
from pathlib import Path

import pytest

from pgtrial.store.server_log.catalogue import CatalogueError, catalogue_paths, is_english, read_catalogue
from pgtrial.store.server_log.printf import without_lengths

# Made by msgfmt 0.21 of four messages; two have numbers by PRId64 and PRIu64, as in PostgreSQL 18.
_MADE = zlib.decompress(
    base64.b64decode(
        "eJx1kM1u00AUhScpvwZKBDzA7aIIJCJ+hBBK8KKliVqpgsgNYss4vkksOWNrPBMRxCOwLCtYsuhDsEDqjl1foE/Qdyhn7HGRkBjp+LsenXvvsU"
        "/vXPraEkKsQU+gXegq9AFqQ589v0CHoj6v0NABQ/Ay+AY8AMfgXfAIvAL+BFu+p+25Jv4et+e4VfM3+B38BZ1BHbyfQNe994Zn4LkBneN0MPjm"
        "P557ot7b9N723gN4r/m7pmfd8773fGvX3+bOrf/MW/desZnQNM24YSkGUfQ2Eq9zZViZ7nhVcI8MfzSPi0ymqk+TudQlm/DdeNh9GYwyq2XWHe"
        "Z6UfZIFdVrGT7rU12GDxRthPT0YT9wK3ak4fSiYCWGg939QSRG0V7y4rmDBYwtkKRHm6R5kS85eVSX2O8qqZkSlgnF1pDKDa3Y1E4ZZxyI91v7"
        "ZEs543rCJNdJ6fqmNsuowD2lCzyru3hlfGGnU9ZlZQrE2BacuXb8A1wr4yxL1pifxlylKFOVkMF2GbNGjMmcVDqZm6YllrqK0t1mZc0nq2Zu3iBV"
        "Rh//mLEbMXSBRi7Q3kWg7SbQqApEy9zl+QPi4qV3"
    )
)


def test_strings_that_depend_on_the_platform_are_read_too():
    found = read_catalogue(_MADE)

    assert found == {
        "%d file": "%d Datei",
        "ERROR": "FEHLER",
        "tuples: %d removed, %d remain, %d are dead but not yet removable": (
            "Tupel: %d entfernt, %d verbleiben, %d sind tot aber noch nicht entfernbar"
        ),
        "WAL usage: %d records, %d full page images, %u bytes, %d buffers full": (
            "WAL-Benutzung: %d Einträge, %d Full Page Images, %u Bytes, %d Puffer voll"
        ),
    }


_INSTALLED = sorted(Path("/usr/share/locale").glob("*/LC_MESSAGES/postgres-*.mo"))


@pytest.mark.skipif(not _INSTALLED, reason="no catalogue of a PostgreSQL server is installed")
def test_installed_catalogues_are_read_as_gettext_reads_them():
    for path in _INSTALLED:
        with path.open("rb") as file:
            oracle = gettext.GNUTranslations(file)
        found = read_catalogue(path.read_bytes())

        # Texts that differ only in what is left out of them have one key here.
        expected: dict[str, set[str]] = {}
        for english, text in oracle._catalog.items():  # type: ignore[attr-defined]
            name = english if isinstance(english, str) else english[0]
            if name and (isinstance(english, str) or english[1] == 0):
                expected.setdefault(without_lengths(name), set()).add(without_lengths(text))
        assert len(found) > 1000
        assert found.keys() == expected.keys()
        assert all(text in expected[english] for english, text in found.items())


@pytest.mark.parametrize(
    "content", [b"", b"x", b"\xde\x12\x04\x95", b"\xde\x12\x04\x95" + b"\xff" * 60, _MADE[:200], b"\0" * 100]
)
def test_a_damaged_catalogue_is_an_error(content):
    with pytest.raises(CatalogueError):
        read_catalogue(content)


@pytest.mark.parametrize(
    ("lc_messages", "folders"),
    [
        ("de", ["de"]),
        ("de_DE", ["de_DE", "de"]),
        ("ru_RU.UTF-8", ["ru_RU", "ru"]),
        ("zh_CN.GB18030", ["zh_CN", "zh"]),
        ("sr_RS.UTF-8@latin", ["sr_RS@latin", "sr@latin", "sr_RS", "sr"]),
    ],
)
def test_a_catalogue_is_looked_for_as_gettext_does(lc_messages, folders):
    assert catalogue_paths(lc_messages, 17) == tuple(f"{name}/LC_MESSAGES/postgres-17.mo" for name in folders)


@pytest.mark.parametrize("lc_messages", ["", "../../etc", "de/../x", "French_France.1252/x", "C.UTF-8/../.."])
def test_what_is_no_locale_is_not_looked_for(lc_messages):
    assert catalogue_paths(lc_messages, 17) == ()


@pytest.mark.parametrize(
    ("lc_messages", "expected"),
    [
        ("", True),
        ("C", True),
        ("POSIX", True),
        ("C.UTF-8", True),
        ("en_US.UTF-8", True),
        ("en", True),
        ("de_DE.UTF-8", False),
        ("ca_ES", False),
        ("eo", False),
    ],
)
def test_english_needs_no_catalogue(lc_messages, expected):
    assert is_english(lc_messages) is expected
