"""No list of knobs stands beside what knobs declare: one that does is forgotten by whoever adds a knob."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pgtrial
from pgtrial.knobs import KNOBS

SOURCE = Path(pgtrial.__file__).parent
# Also tables or words of the experiment file that have nothing to do with arms.
AMBIGUOUS = {"dataset", "workload", "server", "fio"}
NAMES = KNOBS.keys() - AMBIGUOUS
# What a function does, beside it: a knob is confirmed by whoever has set it, and not by its declaration.
# test_every_key_of_a_table_is_set_by_somebody compares it.
DONE = {("engine/target/base.py", "IN_DATABASE")}


def knob_in(node: ast.expr | None) -> str:
    """The knob that an element names: "sysctl", SYSCTL, ("sql", "apply") or "sql.apply"; "" if none."""
    if isinstance(node, ast.Tuple) and node.elts:
        first = node.elts[0]
        return knob_in(first) if not isinstance(first, ast.Constant) or first.value in NAMES else ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        name = node.value.partition(".")[0]
    elif isinstance(node, ast.Name) and node.id.isupper():
        name = node.id.strip("_").lower()
    else:
        return ""
    return name if name in NAMES else ""


def elements(node: ast.AST) -> list[ast.expr | None]:
    if isinstance(node, ast.Dict):  # one of "cgroup.cpus" maps keys to what they mean in a place of its own
        return [key for key in node.keys if not (isinstance(key, ast.Constant) and "." in str(key.value))]
    return list(node.elts) if isinstance(node, ast.Tuple | ast.List | ast.Set) else []


def hand_lists(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    """The name that a list is given, "" for one inside an expression, and the knobs in it."""
    tree = ast.parse(text)
    named = {
        id(inner): target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
        for inner in ast.walk(node.value)
    }
    for node in ast.walk(tree):
        knobs = frozenset(filter(None, map(knob_in, elements(node))))
        pairs = sum(isinstance(element, ast.Tuple) and bool(knob_in(element)) for element in elements(node))
        if len(knobs) > 1 or pairs > 1:
            yield named.get(id(node), ""), knobs


def test_a_list_is_recognised_in_each_form() -> None:
    assert dict(hand_lists('A = frozenset({"sql", "extensions"})')) == {"A": {"sql", "extensions"}}
    assert dict(hand_lists('if name in (POSTGRESQL, "sysctl"): pass')) == {"": {"postgresql", "sysctl"}}
    assert dict(hand_lists('A = ("sql.apply", "tracing.writer_pauses")')) == {"A": {"sql", "tracing"}}
    assert dict(hand_lists('A = {("sql", "apply"), ("sql", "undo")}')) == {"A": {"sql"}}
    assert dict(hand_lists('A = {"server": 1, "tracing": 2}')) == {}


def test_no_list_of_knobs_is_kept_beside_their_declarations() -> None:
    found = [
        f"{place}: {name or 'in an expression'}: {', '.join(sorted(knobs))}"
        for path in sorted(SOURCE.rglob("*.py"))
        if (place := path.relative_to(SOURCE).as_posix()) and not place.startswith("knobs/")
        for name, knobs in hand_lists(path.read_text(encoding="utf-8"))
        if (place, name) not in DONE
    ]

    assert found == []
