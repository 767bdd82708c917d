"""Collect the texts that people read into the catalogues of the languages, and compile these; run by `make catalogues`.

usage: python tools/catalogues.py

A catalogue keeps its translations; what is new in it has none yet, and stays English until it has. Messages have the
files in which they stand, but no lines and no dates, so that a catalogue changes only when texts do.
"""

import ast
import io
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from pgtrial.language import DOMAIN, ENGLISH, LANGUAGES, LOCALE

PACKAGE = LOCALE.parent
# What a call's arguments are: (1, 2) is a text and its plural, (1, "c") the context.
KEYWORDS = {"tr": None, "N_": None, "ntr": (1, 2), "plural": (1, 2), "ptr": ((1, "c"), 2)}
TOML_KEYS = ("name", "about", "advice")  # of experiment_file/checks.toml
# The dates that gettext wants in the header of a catalogue.
_UNDATED = datetime(2026, 1, 1, tzinfo=UTC)


def _texts_of_code(
    file: BinaryIO, *_: Any, **__: Any
) -> Iterator[tuple[int, str, tuple[str | None, ...], Iterable[str]]]:
    """Texts of a Python file: line, function, its arguments that are texts, comments.

    Babel's own way goes by tokens, and does not see a call among the arguments of another one.
    """
    text = file.read()
    if not any(f"{name}(".encode() in text for name in KEYWORDS):  # which is quicker than to parse it
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KEYWORDS:
            given = (each.value if isinstance(each, ast.Constant) else None for each in node.args)
            yield node.lineno, node.func.id, tuple(each if isinstance(each, str) else None for each in given), ()


def _texts_of_checks(file: BinaryIO, *_: Any, **__: Any) -> Iterator[tuple[int, str, str, Iterable[str]]]:
    """Texts of the tables of a TOML file, as Babel wants them: line, function, text, comments."""
    for table in tomllib.load(file).values():
        for key in TOML_KEYS:
            if isinstance(text := table.get(key), str):
                yield 1, "tr", text, ()


def collect() -> Catalog:
    """All texts of the package, without translations."""
    found = Catalog(project=DOMAIN)
    methods: list[tuple[str, Any]] = [
        ("**.py", _texts_of_code),
        ("**.html", "jinja2"),
        ("experiment_file/checks.toml", _texts_of_checks),
    ]
    for path, _, message, _, context in extract_from_dir(PACKAGE, methods, keywords=KEYWORDS):
        found.add(message, locations=[(f"src/pgtrial/{path}", 0)], context=context)
    return found


def catalogue_path(language: str) -> Path:
    return LOCALE / language / "LC_MESSAGES" / f"{DOMAIN}.po"


def read_catalogue(language: str) -> Catalog:
    """The catalogue as it is; an empty one where there is none yet."""
    path = catalogue_path(language)
    if not path.exists():
        return Catalog(locale=language, domain=DOMAIN)
    catalogue = read_po(io.BytesIO(content := path.read_bytes()), locale=language, domain=DOMAIN)
    # A merge can leave a text twice; Babel would keep whichever translation comes last.
    if twice := content.count(b"\nmsgid ") - sum(1 for _ in catalogue):
        raise SystemExit(f"{path}: texts that stand twice: {twice}; leave each its right translation")
    return catalogue


def update(catalogue: Catalog, texts: Catalog) -> None:
    """Give a catalogue exactly these texts; those that it had keep their translations."""
    catalogue.update(texts, no_fuzzy_matching=True)
    catalogue.obsolete.clear()
    catalogue.project, catalogue.creation_date, catalogue.revision_date = DOMAIN, _UNDATED, _UNDATED
    catalogue.fuzzy = False
    catalogue.header_comment = f"# {LANGUAGES[str(catalogue.locale)]}"


def render(catalogue: Catalog) -> bytes:
    out = io.BytesIO()
    write_po(out, catalogue, width=120, sort_by_file=True, include_lineno=False, ignore_obsolete=True)
    return out.getvalue()


def compile_catalogue(catalogue: Catalog) -> bytes:
    out = io.BytesIO()
    write_mo(out, catalogue)
    return out.getvalue()


def main() -> int:
    texts = collect()
    for language in LANGUAGES:
        if language == ENGLISH:
            continue
        catalogue, path = read_catalogue(language), catalogue_path(language)
        update(catalogue, texts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(render(catalogue))
        path.with_suffix(".mo").write_bytes(compile_catalogue(catalogue))
        missing = sum(not message.string or not all(_forms(message.string)) for message in catalogue if message.id)
        print(f"{language}: {len(texts)} texts, {missing} without a translation")
    return 0


def _forms(string: str | Sequence[str]) -> tuple[str, ...]:
    return (string,) if isinstance(string, str) else tuple(string)


if __name__ == "__main__":
    sys.exit(main())
