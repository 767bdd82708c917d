"""The examples stay valid."""

from pathlib import Path

import pytest

from pgtrial.experiment_file.load import examine

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(path for path in EXAMPLES.rglob("*.toml") if "gallery" not in path.parts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(EXAMPLES).as_posix())
def test_an_example_has_no_errors(path: Path) -> None:
    assert examine(path.read_text(encoding="utf-8"), path.parent).problems == ()


def test_there_is_one_for_each_kind_of_claim() -> None:
    claimed = {
        claim.metric.partition(".")[0]
        for path in (EXAMPLES / "claims").glob("*.toml")
        if (experiment := examine(path.read_text(encoding="utf-8"), path.parent).experiment) is not None
        for claim in experiment.hypothesis.claims
    }

    assert claimed == {"iostat", "waits", "stability", "cost", "pgbench"}
