"""Texts of findings and of the report go through a catalogue, also those that no simulated experiment brings about."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pgtrial

ROOT = Path(pgtrial.__file__).parent
KEYS = {"text", "hint", "advice", "reason", "title", "message", "description"}
# What is always in English: docs/languages.md says why.
ENGLISH = {
    "analysis/calibration/summary.py": "pgtrial calibrate",
    "analysis/compare/": "pgtrial compare",
    "report/charts/loads.py": "pgtrial compare",
    "report/charts/pooled.py": "pgtrial compare",
    "report/comparison/": "pgtrial compare",
    "export/": "pgtrial export",
    "report/gate.py": "for pipelines",
    "report/markdown.py": "for pipelines",
}
ERRORS = {"SpecError", "StoreError"}  # whose hints are of errors


@cache
def nodes() -> tuple[tuple[str, ast.Call | ast.Return | ast.Yield], ...]:
    """What the tests below look at, of all modules, each with the name of its own."""
    paths = [path for folder in ("analysis", "report") for path in sorted((ROOT / folder).rglob("*.py"))]
    names = {path.relative_to(ROOT).as_posix(): path for path in paths}
    return tuple(
        (name, node)
        for name, path in names.items()
        if not name.startswith(tuple(ENGLISH))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call | ast.Return | ast.Yield)
    )


def bare_texts(value: ast.expr) -> Iterator[str]:
    """The words of an expression that went through no function; a sign or an empty text is none."""
    match value:
        case ast.Constant(value=str(text)) if re.search(r"[A-Za-z]{3}", text):
            yield text
        case ast.JoinedStr(values=parts):
            for part in parts:
                if isinstance(part, ast.Constant):
                    yield from bare_texts(part)
        case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, right=other):
            yield from bare_texts(one)
            yield from bare_texts(other)


def test_no_text_of_a_finding_or_of_a_chart_is_a_bare_string() -> None:
    bare = [
        f"{name}:{given.value.lineno}: {given.arg}={ast.unparse(given.value)}"
        for name, call in nodes()
        if isinstance(call, ast.Call) and not (isinstance(call.func, ast.Name) and call.func.id in ERRORS)
        for given in call.keywords
        if given.arg in KEYS and any(bare_texts(given.value))
    ]

    assert bare == []


def test_no_function_returns_words_that_went_through_no_catalogue() -> None:
    """Several words; one alone is a name, and an expression of a chart is none."""
    bare = [
        f"{name}:{found.lineno}: {text}"
        for name, found in nodes()
        if isinstance(found, ast.Return | ast.Yield) and found.value is not None and name != "report/summary_words.py"
        for text in bare_texts(found.value)
        if re.search(r"[A-Za-z]{2,},? [A-Za-z]{2,}", text) and "datum." not in text
    ]

    assert bare == []


def test_templates_have_no_words_of_their_own() -> None:
    template = re.compile(
        r"{#.*?#}|{%.*?%}|{{.*?}}|<!--.*?-->|<code>.*?</code>|<script>.*?</script>|<[^<>]*>", re.DOTALL
    )
    bare = [
        f"{path.name}: {word}"
        for path in sorted((ROOT / "report").rglob("*.html"))
        if path.parent.name != "comparison"
        for word in re.findall(r"[A-Za-z_]{2,}", template.sub(" ", path.read_text(encoding="utf-8")))
        if word not in {"pgtrial", "iowait", "shared_buffers"}
    ]

    assert bare == []


def test_attributes_of_templates_have_no_words_of_their_own() -> None:
    wanted = re.compile(r'\b(?:title|aria-label|alt|placeholder|data-text)="([^"{]*[A-Za-z]{2,}[^"{]*)"')
    bare = [
        f"{path.name}: {found}"
        for path in sorted((ROOT / "report").rglob("*.html"))
        if path.parent.name != "comparison"
        for found in wanted.findall(path.read_text(encoding="utf-8"))
    ]

    assert bare == []


def test_the_first_arguments_are_literals_that_the_catalogues_can_have() -> None:
    """``tr(TABLE[key])`` has a text that was marked; a text that is put together is in no catalogue."""
    wrong = [
        f"{name}:{call.lineno}: {ast.unparse(call)}"
        for name, call in nodes()
        if name != "report/markup.py"  # hands on what templates give it
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        for given in call.args[: {"tr": 1, "N_": 1, "ntr": 2, "ptr": 2}.get(call.func.id, 0)]
        if isinstance(given, ast.JoinedStr | ast.BinOp)
        or (call.func.id != "tr" and not isinstance(given, ast.Constant))
    ]

    assert wrong == []


def test_what_measures_puts_no_caveat_into_words() -> None:
    """Its sentence stands in the catalogue, for any language; the engine has a code and values."""
    measuring = ("engine", "fleet", "hosts", "knobs", "postgres", "watch", "workloads")
    paths = [path for folder in measuring for path in sorted((ROOT / folder).rglob("*.py"))]

    assert [path.name for path in paths if "caveat_in_words" in path.read_text(encoding="utf-8")] == []
