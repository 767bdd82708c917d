"""Which type the texts of a parameter look like."""

import pytest

from pgtrial.workloads.replay.types import look_of


@pytest.mark.parametrize(
    ("values", "oid"),
    [
        (("1", None, "-2"), 23),
        (("1", "2147483648"), 20),
        (("9223372036854775808",), 1700),
        (("1", "1.5"), 1700),
        (("1e-7",), 1700),
        (("2026-01-01",), 1082),
        (("2026-01-01 00:00:00.5",), 1114),
        (("2026-01-01 00:00:00+00",), 1184),
        (("6f9619ff-8b86-d011-b42d-00cf4fc964ff",), 2950),
        (("1", "one"), 25),
        (("",), 25),
        ((None,), 0),
    ],
)
def test_the_narrowest_type_that_all_texts_have(values: tuple[str | None, ...], oid: int) -> None:
    assert look_of(values) == oid
