"""Each third-party package has one home, so that it can be exchanged there, and so that nothing else loads it."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "pgtrial"

HOMES = {
    "click": ("cli/",),
    "cryptography": ("hosts/certificate.py",),
    "dask": ("fleet/",),
    "distributed": ("fleet/",),
    "duckdb": (
        "store/",
        "export/frames.py",
        "analysis/readings.py",
        "analysis/reduce.py",
        "analysis/timelines/read.py",
    ),
    "jinja2": ("report/",),
    "markupsafe": ("report/",),
    "numpy": ("export/frames.py", "stats/", "analysis/", "store/", "report/", "watch/"),
    "pandas": ("export/frames.py",),
    "polars": ("export/frames.py",),
    "psycopg": ("postgres/", "engine/sampler", "workloads/replay/"),  # the last two run as programs of their own
    "pyarrow": ("export/frames.py",),
    "pydantic": (
        "experiment_file/",
        "knobs/",
        "engine/events.py",
        "engine/live/view.py",
        "findings/",
        "fleet/copies.py",
        "fleet/hosts_file.py",
        "store/findings_file.py",
        "store/plans.py",
        "store/rows.py",
    ),
    "pydantic_core": ("experiment_file/", "store/command_line.py"),
    "rich": ("cli/",),
    "scipy": ("stats/",),
    "sqlglot": (
        "experiment_file/arm_statements.py",
        "workloads/pauses.py",
        "workloads/production/columns.py",
        "workloads/production/parameters.py",
        "workloads/production/rows.py",
        "workloads/sql_tree.py",
        "workloads/table_uses.py",
    ),
    "tomli_w": ("experiment_file/generate.py", "export/bundle.py"),
    "vl_convert": ("report/",),
    "xlsxwriter": ("export/",),
}


@cache
def read(path: Path) -> str:
    return path.read_text()


@cache
def imported(path: Path) -> frozenset[str]:
    """Top-level names of the packages that a module imports, anywhere in it."""
    return frozenset(find_imported(ast.parse(read(path))))


def is_user(path: Path, name: str) -> bool:
    """Most modules have not even the word in them: only the others are parsed."""
    return name in read(path) and name in imported(path)


def find_imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("name", HOMES)
def test_a_third_party_package_is_imported_at_home_only(name: str) -> None:
    users = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if is_user(path, name)}

    assert {user for user in users if not user.startswith(HOMES[name])} == set()


def test_every_third_party_package_has_a_home() -> None:
    pattern = re.compile(r"^ *(?:from (\w+)[\w.]* import |import (\w+)[\w.]*(?: as \w+)?(?: *#.*)?$)", re.MULTILINE)
    used = {name or other for path in PACKAGE.rglob("*.py") for name, other in pattern.findall(read(path))}

    assert used - sys.stdlib_module_names - {"pgtrial"} == HOMES.keys()
