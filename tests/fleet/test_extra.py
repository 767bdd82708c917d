import importlib.util
import subprocess
import sys

import pytest

from pgtrial.errors import PreflightError
from pgtrial.fleet import extra


def test_without_the_extra_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(PreflightError) as caught:
        extra.require_extra()

    assert caught.value.message == "several hosts need distributed and cryptography, which this Python does not have"
    assert "pip install 'distributed>=2026.8' 'cryptography>=44'" in caught.value.hint


def test_nothing_of_it_is_imported_but_where_it_is_used():
    code = (
        "import sys; import pgtrial.cli.run, pgtrial.cli.resume, pgtrial.cli.plan, pgtrial.cli.on_fleet;"
        "import pgtrial.fleet.experiment, pgtrial.fleet.node, pgtrial.fleet.cluster;"
        "print(sorted({'dask', 'distributed', 'cryptography'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout == "[]\n"
