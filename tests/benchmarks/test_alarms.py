"""benchmarks/alarms.py: what it goes on with."""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def load(name: str) -> ModuleType:
    sys.path.insert(0, str(FOLDER))  # as Python itself does for `python benchmarks/alarms.py`
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


alarms = load("alarms")


def test_months_of_another_seed_are_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = tmp_path / "alarms.jsonl"
    words = ["alarms.py", "--months", "10", "--worlds", "white", "--few", "0", "--raw", str(raw)]
    learned = SimpleNamespace(threshold=np.ones(10), nominal=np.ones(10))
    monkeypatch.setattr(alarms.contenders, "learn_calm", lambda _values: learned)
    monkeypatch.setattr(alarms.contenders, "pgtrial", lambda values, _learned: [[] for _ in values])
    monkeypatch.setattr(sys, "argv", [*words, "--seed", "29"])
    assert alarms.main() == 0
    assert json.loads(raw.read_text())["seed"] == 29
    assert alarms.main() == 0  # it is done

    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit):
        alarms.main()
    assert "has months with the seed 29" in capsys.readouterr().err
