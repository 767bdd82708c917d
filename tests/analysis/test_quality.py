import importlib
import pkgutil

from pgtrial.analysis import validity
from pgtrial.analysis.validity.check import CHECKS, check_quality
from pgtrial.findings.caveat import CaveatFinding, merge_runs
from pgtrial.model.caveat import Severity

MODULES = [
    importlib.import_module(f"{validity.__name__}.{found.name}") for found in pkgutil.iter_modules(validity.__path__)
]


def test_every_check_is_registered_once() -> None:
    found = {
        value
        for module in MODULES
        for name, value in vars(module).items()
        if name.startswith("check_") and value.__module__ == module.__name__
    }

    assert found - {check_quality} == {*CHECKS}
    assert len({*CHECKS}) == len(CHECKS)


def test_caveats_that_differ_in_their_runs_only_are_merged() -> None:
    first, other = (
        CaveatFinding(code=code, severity=Severity.WARNING, text="Text.", runs=(1, 2)) for code in ("a", "b")
    )
    again = first.model_copy(update={"runs": (2, 3)})

    assert merge_runs([first, other, again]) == (first.model_copy(update={"runs": (1, 2, 3)}), other)
