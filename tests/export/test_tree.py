import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.export.tree import format_toml, lists, parse_json, strings, with_strings

ROOT = Path(__file__).parents[2]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    TEXTS | st.integers(-(2**60), 2**60) | st.booleans() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_toml_reads_back_as_what_it_was_written_from(tables: dict[str, object]) -> None:
    assert tomllib.loads(format_toml(tables)) == tables


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.toml")), ids=lambda path: path.name)
def test_experiments_stay_the_same_and_in_order(path: Path) -> None:
    tables = tomllib.loads(path.read_text(encoding="utf-8"))

    again = tomllib.loads(format_toml(tables))

    assert json.dumps(again, default=str) == json.dumps(tables, default=str) or again == tables
    assert list(again.get("arms", {})) == list(tables.get("arms", {}))


def test_lists_of_strings_are_found_wherever_they_stand() -> None:
    tables = {"target": {"restart": ["run", "--token", "abc"]}, "x": [{"y": ["a"]}, 1], "clients": [1, 2], "none": []}

    assert list(lists(tables)) == [["run", "--token", "abc"], ["a"]]


def test_strings_come_with_the_keys_whose_values_they_are() -> None:
    tree = {"a": "x", "b": {"c": ["y", {"d": "z"}], "n": 1}, "e": None}

    assert list(strings(tree)) == [("a", "x"), ("c", "y"), ("d", "z")]
    assert with_strings(tree, lambda text, key: f"{key}{text}") == {
        "a": "ax",
        "b": {"c": ["cy", {"d": "dz"}], "n": 1},
        "e": None,
    }


@pytest.mark.parametrize(
    ("text", "found"), [('{"a": 1}', {"a": 1}), ("[1]", [1]), ("[x", None), ("1", None), ("", None)]
)
def test_only_objects_and_lists_are_taken_for_json(text: str, found: object) -> None:
    assert parse_json(text) == found
