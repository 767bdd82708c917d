"""Registries are tuples one can read: what lies in the folder is in the tuple, once, and says what it is."""

import ast
import importlib
import itertools
import pkgutil
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pgtrial
import pgtrial.report.sections
from pgtrial.report.sections import SECTIONS
from pgtrial.report.sections.base import Section

BLANK = {tokenize.COMMENT, tokenize.NL}


def modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(found.name)


def test_every_section_in_the_folder_is_registered_once() -> None:
    in_folder = [
        value
        for module in modules(pgtrial.report.sections)
        for value in vars(module).values()
        if isinstance(value, Section)
    ]

    assert sorted(map(id, in_folder)) == sorted(map(id, SECTIONS))


def test_every_section_has_a_title_and_its_template_beside_it() -> None:
    folder = Path(pgtrial.report.sections.__file__).parent

    assert {path.stem for path in folder.glob("*.html")} == {section.name for section in SECTIONS}
    assert all(section.title for section in SECTIONS)


def begins_with_a_docstring(path: Path) -> bool:
    """To parse whole modules for their first lines would take a hundred times as long."""
    with tokenize.open(path) as file:
        tokens = tokenize.generate_tokens(file.readline)
        first = list(itertools.islice((token for token in tokens if token.type not in BLANK), 2))
    if [token.type for token in first] != [tokenize.STRING, tokenize.NEWLINE]:
        return False
    text = ast.literal_eval(first[0].string)
    return isinstance(text, str) and bool(text.strip())


def test_every_module_says_why_it_exists() -> None:
    package = Path(pgtrial.__file__).parent

    silent = [
        path.relative_to(package).as_posix() for path in package.rglob("*.py") if not begins_with_a_docstring(path)
    ]

    assert silent == []
