"""The catalogue of findings: every entry can be written, has a unit for every number, and is used."""

import ast
from functools import cache
from pathlib import Path

import pytest

import pgtrial
from pgtrial.findings.catalogue import ENTRIES, TABLES, VERBATIM
from pgtrial.findings.catalogue.base import Entry, Plural, Template
from pgtrial.findings.catalogue.series import SERIES
from pgtrial.findings.message import names_of
from pgtrial.findings.rendering import CLAUSES, LISTS, WAYS, placeholders

ROOT = Path(pgtrial.__file__).parent
TESTS = Path(__file__).parents[1]
MAKERS = {"message", "caveat"}  # functions whose first argument is a code


@cache
def nodes() -> tuple[ast.AST, ...]:
    """All of the package's code outside of the catalogue."""
    return tuple(
        node
        for path in ROOT.rglob("*.py")
        if "catalogue" not in path.relative_to(ROOT).parts[:2] or path.is_relative_to(ROOT / "postgres")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


@cache
def constants() -> frozenset[str]:
    return frozenset(node.value for node in nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str))


@cache
def openings() -> tuple[str, ...]:
    """What codes begin with that are put together: "wait-event." of f"wait-event.{event}"."""
    firsts = [node.values[0] for node in nodes() if isinstance(node, ast.JoinedStr) and node.values]
    return tuple(
        {str(first.value) for first in firsts if isinstance(first, ast.Constant) and str(first.value)[-1] == "."}
    )


@cache
def calls() -> tuple[tuple[str, str, tuple[str, ...], bool], ...]:
    """Place, code, names of the values, and whether there may be more, of each call that makes a message."""
    return tuple(
        (f"{path.relative_to(ROOT)}:{node.lineno}", code, names, None in {each.arg for each in node.keywords})
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS and node.args
        for code in codes_of(node.args[0])
        for names in [tuple(each.arg for each in node.keywords if each.arg)]
    )


def codes_of(node: ast.expr) -> list[str]:
    match node:
        case ast.Constant(value=str(code)):
            return [code]
        case ast.IfExp(body=one, orelse=other):
            return codes_of(one) + codes_of(other)
    return []


def forms(template: Template) -> tuple[str, ...]:
    if isinstance(template, Plural):
        return template.one, template.many
    return template if isinstance(template, tuple) else (template,)


def test_every_code_is_used() -> None:
    used = {code for code in ENTRIES if code in constants() or code.startswith(openings())}

    assert ENTRIES.keys() - used - SERIES.keys() - unused_bases() - {VERBATIM} == set()


def unused_bases() -> set[str]:
    """Caveats that have variants only."""
    return {code for code, entry in ENTRIES.items() if not entry.text}


def test_every_code_that_is_used_is_in_the_catalogue() -> None:
    assert [f"{where}: {code}" for where, code, _, _ in calls() if code not in ENTRIES] == []


def test_every_call_gives_the_values_that_the_words_name() -> None:
    wrong = [
        f"{where}: {code} lacks {', '.join(sorted(missing))}"
        for where, code, names, is_open in calls()
        if not is_open and (missing := names_of(ENTRIES[code]).keys() - set(names))
    ]

    assert wrong == []


def is_way(way: str) -> bool:
    shape, _, rest = way.partition(" ")
    return not way or way in WAYS or (shape in {*LISTS, *CLAUSES} and is_way(rest))


@pytest.mark.parametrize("code", ENTRIES)
def test_every_value_has_a_known_way_to_be_written(code: str) -> None:
    entry = ENTRIES[code]
    ways = {name: way for template in (entry.text, entry.hint) for name, way in placeholders(template).items()}

    assert {name: way for name, way in ways.items() if not is_way(way)} == {}


@pytest.mark.parametrize("code", ENTRIES)
def test_both_forms_of_a_counted_sentence_name_the_same_values(code: str) -> None:
    for template in (ENTRIES[code].text, ENTRIES[code].hint):
        if isinstance(template, Plural):
            assert {**placeholders(template.one), template.by: ""} == {**placeholders(template.many), template.by: ""}


def test_no_code_stands_in_two_tables() -> None:
    assert sum(map(len, TABLES)) == len(ENTRIES.keys() - {VERBATIM, "sentences"})


def test_every_caveat_says_when_it_is_raised_and_how_grave_it_is() -> None:
    caveats = {code: entry for code, entry in ENTRIES.items() if entry.severity is not None}

    assert {code for code, entry in caveats.items() if not entry.when and "." not in code} == set()
    assert {code for code, entry in ENTRIES.items() if entry.when and entry.severity is None} == set()


def test_every_caveat_is_raised_by_a_test() -> None:
    """As far as one can see: a test says its code."""
    said = {
        node.value
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    caveats = {code.partition(".")[0] for code, entry in ENTRIES.items() if entry.severity is not None}

    assert sorted(caveats - said) == []


def test_a_variant_is_of_a_caveat_that_is_there() -> None:
    variants = [code for table in TABLES for code, entry in table.items() if is_partial(entry)]

    assert [code for code in variants if code.partition(".")[0] not in ENTRIES] == []


def is_partial(entry: Entry) -> bool:
    return not entry.text or bool(entry.hint)
