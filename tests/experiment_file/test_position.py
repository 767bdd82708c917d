import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.experiment_file.position import format_path, locate_keys

TEXT = '''\
# comment with [brackets] = and "quotes"
format = 1
[experiment] # after
name = "a # not a comment"
description = """
[not.a.table]
key = 1
"""

[arms.big.postgresql]
shared_buffers = '4GB'
"auto_explain.log_analyze" = true
a.b.c = 1
[workload]
clients = [
  5,   # five
  7,
]
warmup = { cap = "2min", mode = "auto" }
literal = \'\'\'
x = [ \'\'\'

[[workload.scenario]]
name = "one"
[[workload.scenario]]
name = "two"
[workload.scenario.extra]
when = 2026-01-20 10:00:00
'''


def paths_of(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from paths_of(inner, (*path, key))
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield (*path, index)
            yield from paths_of(inner, (*path, index))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("format",), 2),
        (("experiment",), 3),
        (("experiment", "name"), 4),
        (("arms", "big"), 10),
        (("arms", "big", "postgresql"), 10),
        (("arms", "big", "postgresql", "auto_explain.log_analyze"), 12),
        (("arms", "big", "postgresql", "a", "b", "c"), 13),
        (("workload", "clients"), 15),
        (("workload", "clients", 0), 16),
        (("workload", "clients", 1), 17),
        (("workload", "warmup", "mode"), 19),
        (("workload", "scenario"), 23),
        (("workload", "scenario", 0, "name"), 24),
        (("workload", "scenario", 1), 25),
        (("workload", "scenario", 1, "extra", "when"), 28),
    ],
)
def test_a_key_has_the_line_it_stands_on(path: tuple[str | int, ...], line: int) -> None:
    assert locate_keys(TEXT)[path] == line


def test_every_path_of_the_values_is_located_and_no_other() -> None:
    assert set(locate_keys(TEXT)) == set(paths_of(tomllib.loads(TEXT)))


def test_windows_line_ends_count_as_lines() -> None:
    assert locate_keys(TEXT.replace("\n", "\r\n")) == locate_keys(TEXT)


@pytest.mark.parametrize("text", ['a = """x""""', "a = '''x''''", 'a = """\\""""', 'a = ""', "a = [ ]", "a = {}", ""])
def test_strings_that_end_in_quotation_marks_are_skipped_whole(text: str) -> None:
    located = locate_keys(text + "\nafter = 1\n")

    assert located[("after",)] == 2
    assert set(located) == set(paths_of(tomllib.loads(text + "\nafter = 1\n")))


_KEYS = st.text(alphabet='ab.-"\\é [#', min_size=1, max_size=4)
_VALUES = st.recursive(
    st.integers() | st.booleans() | st.text(alphabet='a"]}#,=\\', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)


def render(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quote(value)
        case list():
            return "[ " + ", # x ]\n".join(render(inner) for inner in value) + " ]"
        case dict():
            return "{" + ", ".join(f"{quote(key)} = {render(inner)}" for key, inner in value.items()) + "}"
    return str(value)


def quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_any_document_gives_exactly_its_own_paths(document: dict[str, Any]) -> None:
    # Inline tables stay on one line, so a list inside one must not be broken.
    text = "".join(
        f"{quote(key)} = {render(value).replace(', # x ]', ',').replace(chr(10), ' ')}\n"
        for key, value in document.items()
    )

    assert set(locate_keys(text)) == set(paths_of(tomllib.loads(text)))


def test_a_path_is_written_as_in_the_file() -> None:
    assert format_path(("arms", "a b", "postgresql", "x.y")) == 'arms."a b".postgresql."x.y"'
    assert format_path(("workload", "scenario", 1, "name")) == "workload.scenario[1].name"
