import random

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.postgres.auto_conf import (
    HEADER,
    Entry,
    alter,
    is_canonical,
    is_setting_name,
    parse,
    render,
    steps_between,
)


def entries(**values: str) -> tuple[Entry, ...]:
    return tuple(Entry(name=name, value=value) for name, value in values.items())


names = st.sampled_from(["work_mem", "a.b", "Search_Path", "x", "port"])
values = st.text(st.characters(max_codepoint=255, exclude_characters="\n\0"), max_size=8)
lists = st.lists(st.tuples(names, values), unique_by=lambda pair: pair[0], max_size=5).map(
    lambda pairs: tuple(Entry(name=name, value=value) for name, value in pairs)
)


@given(lists)
def test_what_is_rendered_is_read_back_and_canonical(found):
    assert parse(render(found)) == found
    assert is_canonical(render(found))


@given(lists, lists)
def test_steps_lead_from_any_file_to_any_other_in_the_same_order(now, wanted):
    for name, value in steps_between(now, wanted):
        now = alter(now, name, value)

    assert now == wanted


def test_only_what_stands_behind_is_set_again():
    now, wanted = entries(a="1", c="3", b="9"), entries(a="1", b="2", c="3")

    assert steps_between(now, wanted) == (("b", "2"), ("c", "3"))


def test_a_setting_that_was_not_there_is_reset():
    assert steps_between(entries(a="1", b="2"), entries(a="1")) == (("b", None),)


def test_the_same_file_needs_no_steps():
    assert steps_between(entries(a="1", b="2"), entries(a="1", b="2")) == ()


@pytest.mark.parametrize(
    "text",
    [
        b"",  # without the header
        HEADER + b"work_mem = '4MB'",
        HEADER + b"work_mem = 4MB\n",
        HEADER + b"# mine\n",
        HEADER + b"work_mem = '4MB'\nWORK_MEM = '5MB'\n",  # ALTER SYSTEM would take out both
        HEADER + b"nonsense",
    ],
)
def test_a_file_that_was_edited_by_hand_is_not_canonical(text):
    assert not is_canonical(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"a = 1\nb = \n", "the server cannot read line 2"),
        (b"include 'x.conf'\n", "line 1 includes another file"),
        (b"a = 'x\\ny'\n", "line 1 has a value with a line break"),
        (b"a.b.c = 1\n", "the server cannot read line 1"),
    ],
)
def test_what_cannot_be_rewritten_is_an_error_that_does_not_quote_it(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        parse(text)


@pytest.mark.parametrize(("name", "holds"), [("work_mem", True), ("a.b", True), ("a.b.c", False), ("1a", False)])
def test_names_that_a_configuration_file_can_hold(name, holds):
    assert is_setting_name(name) is holds


_NAMES = ("work_mem", "WORK_MEM", "a.b", "log_line_prefix", "autovacuum", "x", "a.b.c", "é", "a.é", "cpu_tuple_cost")
_VALUES = (
    *("4MB", "'4MB'", "'it''s'", r"'a\\b'", r"'\101\7x\tq'", r"'\n'", "on", "0x10kB", "-1", "+.5e3", "1.5", "1."),
    *("5e3", "a/b:c-d", "'", "'x", "#", "'a#b'", "a'b'", "''", "''''", "'a'''", "3 4", "4mb5", "1.5kB", "é", "a.b"),
    *("a.b.c", "-x", r"'\'", "0x", "1.5.2", "a=b", "."),
)


def _hand_made(rng: random.Random) -> bytes:
    lines = []
    for _ in range(rng.randint(0, 5)):
        equals = rng.choice([" = ", "=", " ", "", "\t", "\r= ", " =  "])
        end = rng.choice(["", " ", "#c", " # c", "\r", " x"])
        lines.append(rng.choice(["", " ", "\t"]) + rng.choice(_NAMES) + equals + rng.choice(_VALUES) + end)
        if rng.random() < 0.2:
            lines.append(rng.choice(["", "# c", "   ", "\r", "=", "é # c"]))
    text = "\n".join(lines) + rng.choice(["", "\n", "\n\n"])
    return text.encode(rng.choice(["utf-8", "latin-1"]))


def test_hand_made_files_become_what_the_server_makes_of_them(foreign):
    """The oracle is ALTER SYSTEM itself; what it refuses is refused here too."""
    rng, agreed = random.Random(foreign.programs.major), 0
    with psycopg.connect(foreign.conninfo(), autocommit=True) as connection:
        for _ in range(400):
            text = _hand_made(rng)
            foreign.auto_conf.write_bytes(text)
            try:
                expected: bytes | None = render(alter(parse(text), "maintenance_work_mem", "9MB"))
            except ValueError as err:
                if "line break" in str(err):
                    continue  # the server takes it, and writes what it cannot read again
                expected = None
            try:
                connection.execute("ALTER SYSTEM SET maintenance_work_mem = '9MB'")
            except psycopg.Error:
                assert expected is None, text
            else:
                assert expected == foreign.auto_conf.read_bytes(), text
                agreed += 1
    assert agreed > 50
