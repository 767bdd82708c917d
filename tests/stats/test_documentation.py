import importlib
import re
from pathlib import Path

import pgtrial.stats


def test_every_caveat_that_is_attached_is_documented():
    modules = Path(pgtrial.stats.__file__).parent.glob("**/*.py")
    emitted = {code for module in modules for code in re.findall(r'caveat\(\s*"([a-z-]+)"', module.read_text("utf-8"))}
    page = (Path(__file__).parents[2] / "docs" / "caveats.md").read_text("utf-8")

    assert len(emitted) > 5
    assert emitted <= set(re.findall(r"^\| `([a-z-]+)` \|", page, flags=re.MULTILINE))


def test_every_function_of_the_table_of_methods_exists():
    page = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text("utf-8")
    table = page.partition("| Question | Method | Function |")[2].partition("\n## ")[0]
    named = re.findall(r"`(\w+)\.(\w+|\*)`", table)

    assert len(named) > 20
    assert [f"{module}.{name}" for module, name in named if not has(module, name)] == []


def has(module: str, name: str) -> bool:
    members = vars(importlib.import_module(f"pgtrial.stats.{module}"))
    return name == "*" or name in members
