import pytest

from pgtrial.export.tree import lists, parse_tree, strings, with_strings


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
    assert parse_tree(text) == found
