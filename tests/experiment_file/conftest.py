"""Files for tests of what is wrong in them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pgtrial.errors import SpecProblem
from pgtrial.experiment_file.load import examine

HEAD = 'format = 1\n[experiment]\nname = "x"\n'


@pytest.fixture
def find() -> Callable[..., dict[str, SpecProblem]]:
    """Problems by path of a file with these tables beside a name and a workload."""

    def problems(text: str, folder: Path | None = None, mix: str = "select-only") -> dict[str, SpecProblem]:
        found = examine(f'{HEAD}[workload]\nmix = "{mix}"\n{text}', folder).problems
        assert len({problem.path for problem in found}) == len(found), found
        return {problem.path: problem for problem in found}

    return problems
