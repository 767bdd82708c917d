import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.calibration.summary import block_times, summarize_calibration
from pgtrial.design.calibration import CalibrationPlan, Part, plan_calibration
from pgtrial.design.method_case import HostFacts
from pgtrial.engine.calibration import create_calibration_folder, discard_if_empty, run_calibration
from pgtrial.engine.events import Event, RunStarted, ignore
from pgtrial.engine.experiment import Permission
from pgtrial.errors import ConsentError, StoreError
from pgtrial.experiment_file.load import LoadedExperiment, parse_experiment
from pgtrial.findings.findings import Findings
from pgtrial.postgres.programs import Programs
from pgtrial.store import layout
from pgtrial.store.journal_file import VARIABLE

TEXT = """\
format = 1
[experiment]
name = "x"
[target]
postgres = "{postgres}"
[dataset]
scale = 1
[workload]
clients = 2
duration = "2s"
warmup = 0
[[workload.scenario]]
name = "s"
file = "s.sql"
[arms.a.postgresql]
work_mem = "1MB"
[arms.b.postgresql]
work_mem = "2MB"
"""
FACTS = HostFacts(local=True, cores=((0,),), memory_available=None)


def load(folder: Path, *, postgres: object = "16", text: str = TEXT) -> LoadedExperiment:
    # Clients that think between two transactions leave the processors to what runs at the same time.
    (folder / "s.sql").write_text("\\sleep 4 ms\nSELECT count(*) FROM pgbench_branches;\n")
    return parse_experiment(text.format(postgres=postgres), "x", folder)


def small_plan(loaded: LoadedExperiment) -> CalibrationPlan:
    """Two portions of one method, each of a block of 1 s; there is no time for more."""
    plan = plan_calibration(loaded.experiment, FACTS, budget=3600)
    candidate = replace(plan.candidates[-1], duration=1.0, warmup=0.0)
    parts = tuple(
        replace(part, candidate=candidate, blocks=1, seconds=10.0)
        for part in plan.parts
        if part.candidate.label == candidate.label
    )
    return replace(plan, candidates=(candidate,), parts=parts, fewest=1, budget=1.0)


def test_every_part_is_an_ordinary_experiment_in_a_folder_of_its_own(
    programs: Programs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    storage: Path,
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    loaded = load(tmp_path, postgres=programs.directory)
    plan = small_plan(loaded)
    folder = create_calibration_folder(loaded, tmp_path / "results")
    begun: list[tuple[int, Part]] = []
    told: list[Event] = []

    run_calibration(
        loaded,
        plan,
        folder,
        permission=Permission(work_base=storage),
        tell=told.append,
        begin=lambda *part: begun.append(part),
    )

    assert folder.parent == tmp_path / "results"
    assert folder.name.startswith("x-calibration-")
    names = ["interleaved-500ms-1", "interleaved-500ms-2"]
    assert [(number, part.name, part.blocks) for number, part in begun] == [
        (number, name, 1) for number, name in enumerate(names)
    ]
    assert sorted(path.name for path in folder.iterdir()) == [layout.EXPERIMENT, *names]
    found: list[Findings] = [analyze(folder / name) for name in names]
    assert [one.experiment.method for one in found] == ["interleaved", "interleaved"]
    assert found[0].experiment.seed != found[1].experiment.seed
    assert all(one.experiment.complete for one in found)
    assert {arm.name: arm.settings for arm in found[0].experiment.arms} == {
        "control": {"work_mem": "1MB"},
        "again": {"work_mem": "1MB"},
    }
    for one in found:
        assert one.slices is not None
        ((block, measured, _),) = block_times(one.runs)
        assert block > measured >= 1
    # Too few blocks to say anything.
    assert summarize_calibration(folder, plan, complete=True, created=0.0) is None
    # What comes after a part is part of the time that is left.
    first = next(event for event in told if isinstance(event, RunStarted))
    assert first.remaining > plan.parts[1].seconds


def test_a_folder_without_a_part_goes_again(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    one, other = (create_calibration_folder(loaded, tmp_path / "results") for _ in range(2))
    assert one != other
    assert tomllib.loads((one / layout.EXPERIMENT).read_text()) == tomllib.loads(loaded.text)

    (other / "blocks-1").mkdir()
    for folder in (one, other):
        discard_if_empty(folder)
    assert (one.exists(), other.exists()) == (False, True)


def test_host_changes_have_to_be_allowed_as_for_an_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    loaded = load(tmp_path, text=TEXT + '[target.sysctl]\n"vm.swappiness" = 10\n')
    plan = small_plan(loaded)
    folder = create_calibration_folder(loaded, tmp_path / "results")

    with pytest.raises(ConsentError, match="you have not allowed"):
        run_calibration(loaded, plan, folder, permission=Permission(), tell=ignore, begin=lambda *_: None)

    discard_if_empty(folder)
    assert not folder.exists()


def test_results_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "results").touch()

    with pytest.raises(StoreError, match="cannot create a result folder"):
        create_calibration_folder(load(tmp_path), tmp_path / "results")
