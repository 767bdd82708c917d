from pgtrial.analysis.validity import blocks, hosts, machine, registration, runs, slices, world
from pgtrial.analysis.validity.check import CHECKS
from pgtrial.findings.caveat import CaveatFinding, merge_runs
from pgtrial.model.caveat import Severity

MODULES = (blocks, hosts, machine, registration, runs, slices, world)


def test_every_check_is_registered_once() -> None:
    found = [value for module in MODULES for name, value in vars(module).items() if name.startswith("check_")]

    assert sorted(map(id, found)) == sorted(map(id, CHECKS))


def test_caveats_that_differ_in_their_runs_only_are_merged() -> None:
    first, other = (
        CaveatFinding(code=code, severity=Severity.WARNING, text="Text.", runs=(1, 2)) for code in ("a", "b")
    )
    again = first.model_copy(update={"runs": (2, 3)})

    assert merge_runs([first, other, again]) == (first.model_copy(update={"runs": (1, 2, 3)}), other)
