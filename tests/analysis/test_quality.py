import ast
import importlib
import pkgutil
from pathlib import Path

from pgtrial.analysis import validity
from pgtrial.analysis.validity.check import CHECKS, check_quality
from pgtrial.findings.catalogue import ENTRIES
from pgtrial.findings.caveat import CaveatFinding, merge_runs
from pgtrial.model.caveat import Severity

MODULES = [
    importlib.import_module(f"{validity.__name__}.{found.name}") for found in pkgutil.iter_modules(validity.__path__)
]
TESTS = Path(__file__).parents[1]


def texts_of(path: Path) -> set[str]:
    """Each text that stands in a module by itself."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_every_check_is_registered_once() -> None:
    found = {
        value
        for module in MODULES
        for name, value in vars(module).items()
        if name.startswith("check_") and value.__module__ == module.__name__
    }

    assert found - {check_quality} == {*CHECKS}
    assert len({*CHECKS}) == len(CHECKS)


def test_every_caveat_of_a_check_is_raised_by_a_test() -> None:
    """As far as one can see: a test says its code."""
    raised = {text for module in MODULES for text in texts_of(Path(str(module.__file__)))}
    caveats = {code.partition(".")[0] for code in raised if code in ENTRIES and ENTRIES[code].severity is not None}
    tested = {text for path in TESTS.rglob("test_*.py") for text in texts_of(path)}

    assert sorted(caveats - tested) == []


def test_caveats_that_differ_in_their_runs_only_are_merged() -> None:
    first, other = (
        CaveatFinding(code=code, severity=Severity.WARNING, text="Text.", runs=(1, 2)) for code in ("a", "b")
    )
    again = first.model_copy(update={"runs": (2, 3)})

    assert merge_runs([first, other, again]) == (first.model_copy(update={"runs": (1, 2, 3)}), other)
