"""Gains from huge pages in simulated experiments whose true gains are known, and what the runs noted of their pages."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.observations import Values, index_values, observe_runs
from pgtrial.analysis.pages.gains import describe_pages
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.export.tables import tables_of
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.findings.questions import HugePageFindings, PageCheck, PageGain
from pgtrial.model.run import RunState
from pgtrial.model.verdict import Decision
from pgtrial.store.state import State
from support import COUNTERS, Simulation, write_result_folder

TEXT = """\
format = 1

[experiment]
name = "pages"

[hypothesis]
margin = "3%"

[workload]
mix = "select-only"
clients = [2, 8]
duration = "3s"

[factors.pages]
knob = "huge_pages"
setting = "size"
levels = ["none", "2MB", "1GB"]

[factors.scale]
knob = "dataset"
levels = [10, 100]

[design]
blocks = 6
"""
# At scale 10, 150 MB, the data fit in 512 MB; at scale 100 they do not, and huge pages gain nothing.
TPS = {
    "pages=none,scale=10": 1000.0,
    "pages=2MB,scale=10": 1100.0,
    "pages=1GB,scale=10": 1500.0,
    "pages=none,scale=100": 300.0,
    "pages=2MB,scale=100": 300.0,
    "pages=1GB,scale=100": 300.0,
}
PAGE = {"none": 4096, "2MB": 2 << 20, "1GB": 1 << 30}
HIT = {("pg_stat_database.blks_hit", ""): 3000.0, ("pg_stat_database.blks_read", ""): 1000.0}


def note_pages(folder: Path, *, wrong: int = 0, kept: int = 0, reason: str = "") -> None:
    """Write down what the engine notes of each run: ``wrong`` is the run with ordinary pages, ``kept`` the one whose
    pool was not given back.
    """
    runs = read_evidence(folder).runs
    state = State.open(folder, write=True)
    for run in runs:
        page = run.slot.arm.partition(",")[0].removeprefix("pages=")
        used = 0 if page == "none" else 270 if page == "2MB" else 1

        def pools(nr: int, free: int, resv: int = 0, page: str = page) -> dict[str, dict[str, int]]:
            other = "1GB" if page == "2MB" else "2MB"
            own = {"nr": nr, "free": free, "resv": resv}
            return {other: {"nr": 0, "free": 0, "resv": 0}, **({} if page == "none" else {page: own})}

        size = PAGE["none"] if run.id == wrong else PAGE[page]
        shared = {"size": 540 << 20, "page": size, "transparent": 0}
        state.add_event(0.0, "pages", run=run.id, moment="before", pools=pools(0, 0), meminfo={})
        # Half of it has not been touched: these pages count as free, and are reserved for the server.
        under_load = pools(used, used // 2, used // 2)
        state.add_event(0.0, "pages", run=run.id, moment="under load", pools=under_load, shared=shared, meminfo={})
        left = used if run.id == kept else 0
        state.add_event(0.0, "pages", run=run.id, moment="after", pools=pools(left, left), meminfo={})
        for level in (0, 1):
            misses = 2e6 if page == "none" else 5e5
            counts = {"dTLB-loads": 1e9, "dTLB-load-misses": misses, "dTLB-store-misses": 1e5, "instructions": 2e9}
            data: dict[str, Any] = {"seconds": 9.7, "counts": {} if reason else counts, "reason": reason}
            state.add_event(0.0, "translations", run=run.id, level=level, **data)
    state.close()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The experiment without notes of its runs; not to be changed."""
    arms = {arm: {"shared_buffers": "512MB"} for arm in TPS}
    simulation = Simulation(tps=TPS, settings=arms, counters={**COUNTERS, **HIT}, run_sd=0.01)
    return write_result_folder(tmp_path_factory.mktemp("results") / "bare", text=TEXT, simulation=simulation)


@pytest.fixture(scope="module")
def measured(bare: Path) -> Values:
    """Values of its runs, with whatever notes."""
    evidence = read_evidence(bare)
    return index_values(observe_runs(evidence, reduce_runs(evidence)))


@pytest.fixture(scope="module")
def findings(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    noted = shutil.copytree(bare, tmp_path_factory.mktemp("results") / "pages")
    note_pages(noted)
    return analyze(noted)


@pytest.fixture(scope="module")
def pages(findings: Findings) -> HugePageFindings:
    assert findings.pages is not None
    return findings.pages


@pytest.fixture
def gain(pages: HugePageFindings) -> Callable[..., PageGain]:
    def find(arm: str, level: int | str = "all") -> PageGain:
        return next(each for each in pages.gains if (each.arm, each.load_level) == (arm, level))

    return find


def test_each_gain_is_against_ordinary_pages_with_the_same_data(pages: HugePageFindings) -> None:
    pairs = {(gain.arm, gain.baseline) for gain in pages.gains}

    assert pairs == {
        (f"pages={page},scale={scale}", f"pages=none,scale={scale}") for page in ("2MB", "1GB") for scale in (10, 100)
    }
    assert len(pages.gains) == 4 * 3  # pairs, at both load levels and over them


@pytest.mark.parametrize(("arm", "true"), [("pages=2MB,scale=10", 1.1), ("pages=1GB,scale=10", 1.5)])
@pytest.mark.parametrize("level", ["all", 0, 1])
def test_gains_are_near_the_true_ones_with_intervals(
    gain: Callable[..., PageGain], arm: str, true: float, level: int | str
) -> None:
    found = gain(arm, level)

    assert found.ratio == pytest.approx(true, rel=0.03)
    assert found.low is not None
    assert found.high is not None
    assert found.low < true < found.high
    assert found.blocks == 6


def test_where_pages_gain_nothing_no_gain_is_found(gain: Callable[..., PageGain]) -> None:
    found = gain("pages=2MB,scale=100")

    assert found.ratio == pytest.approx(1, abs=0.03)
    assert found.decision is not Decision.BETTER


def test_intervals_hold_for_all_cells_among_which_the_largest_is_told(
    gain: Callable[..., PageGain], findings: Findings
) -> None:
    """The arm's effect against the control is the same comparison, but for the number of them: 12 here, 5 there."""
    effect = next(
        each
        for each in findings.effects
        if (each.arm, each.metric, each.load_level, each.scenario) == ("pages=2MB,scale=10", "pgbench.tps", "all", None)
    )
    found = gain("pages=2MB,scale=10")

    assert found.ratio == pytest.approx(effect.ratio)
    assert found.low is not None
    assert effect.low is not None
    assert found.low < effect.low


@pytest.mark.parametrize("state", [RunState.INVALID, RunState.INTERRUPTED])
def test_a_gain_of_pages_whose_runs_were_lost_is_not_asserted(bare: Path, measured: Values, state: RunState) -> None:
    """Those of the control, against which all failures are counted."""
    evidence = read_evidence(bare)
    lost = tuple(
        replace(run, id=900 + number, state=state)
        for number, run in enumerate(evidence.runs_of("pages=none,scale=10"))
        for _ in range(2)
    )

    sound = describe_pages(evidence, measured)
    found = describe_pages(replace(evidence, runs=(*evidence.runs, *lost)), measured)

    assert sound is not None
    assert found is not None
    assert any(each.decision is Decision.BETTER for each in sound.gains)
    assert {each.decision for each in found.gains} == {Decision.INCONCLUSIVE}
    assert say(found.text).startswith("In no cell is a gain from huge pages shown.")


def test_a_run_that_stood_still_at_one_load_level_leaves_no_gain_over_all(bare: Path, measured: Values) -> None:
    """There is no mean over levels of which one is zero, and its block is the worst one of the arm."""
    evidence = read_evidence(bare)
    worst = evidence.runs_of("pages=2MB,scale=10")[0].id
    values = {key: value for key, value in measured.items() if key != (worst, "pgbench.tps", None, "all")}
    values[worst, "pgbench.tps", None, 0] = 0.0

    found = describe_pages(evidence, values)

    assert found is not None
    (gain,) = (each for each in found.gains if (each.arm, each.load_level) == ("pages=2MB,scale=10", "all"))
    assert (gain.ratio, gain.decision) == (None, Decision.INCONCLUSIVE)


def test_where_the_data_stop_fitting_is_told(pages: HugePageFindings) -> None:
    small, large = pages.fits

    assert (small.scale, small.fits, large.scale, large.fits) == (10, True, 100, False)
    assert small.shared_buffers == 512 * 1024**2
    assert small.data == 10 * 15 * 1024**2
    assert small.hit_share is not None
    assert small.hit_share.value == pytest.approx(0.75, abs=0.01)
    assert "stop fitting in shared_buffers (512 MB) between scale 10, about 150 MB, and scale 100" in say(pages.text)


def test_the_text_names_the_largest_gain_that_is_shown(pages: HugePageFindings) -> None:
    shown = [gain for gain in pages.gains if gain.load_level != "all" and (gain.low or 0.0) > 1]
    largest = max(shown, key=lambda gain: gain.ratio or 0.0)

    start = f"The largest gain that is shown is that of pages of {largest.page} at scale 10 with "
    assert say(pages.text).startswith(start)
    assert "where the data fit in shared_buffers" in say(pages.text)


def describe(evidence: Evidence, values: Values) -> HugePageFindings:
    found = describe_pages(evidence, values)
    assert found is not None
    return found


def test_fewer_blocks_than_a_claim_needs_tell_of_no_gain(bare: Path, measured: Values) -> None:
    evidence = read_evidence(bare)
    runs = tuple(run for run in evidence.runs if run.slot.block <= 5)

    found = describe(replace(evidence, runs=runs, valid=runs), measured)

    assert say(found.text).startswith("In no cell is a gain from huge pages shown.")
    assert {gain.decision for gain in found.gains} == {Decision.INCONCLUSIVE}


def low_of(gain: PageGain) -> float:
    assert gain.low is not None
    return gain.low


def test_a_gain_bears_the_failures_of_both_arms_and_no_others(bare: Path, measured: Values) -> None:
    evidence = read_evidence(bare)

    def find(*arms: str) -> dict[str, PageGain]:
        """With attempts of these arms that failed, by the arm."""
        mine = [next(run for run in evidence.runs if run.slot.arm == arm) for arm in arms]
        failed = [replace(run, id=1000 + number, state=RunState.INVALID) for number, run in enumerate(mine)]
        found = describe(replace(evidence, runs=(*evidence.runs, *failed)), measured)
        return {gain.arm: gain for gain in found.gains if gain.load_level == "all"}

    arm, other, ordinary = "pages=2MB,scale=10", "pages=2MB,scale=100", "pages=none,scale=100"
    without, one, two, of_baseline = find(), find(arm), find(arm, arm), find(ordinary)

    assert without[arm].decision is Decision.BETTER
    assert low_of(without[arm]) > low_of(one[arm])
    assert two[arm].low is None
    assert two[arm].decision is Decision.INCONCLUSIVE
    assert two[other] == without[other]
    assert low_of(without[other]) > low_of(of_baseline[other])
    assert without[arm] == of_baseline[arm]


def test_tables_have_what_the_findings_have(pages: HugePageFindings, findings: Findings) -> None:
    tables = {each.name: each for each in tables_of(findings)}
    gains = [
        dict(zip((c.name for c in tables["page_gains"].columns), r, strict=True)) for r in tables["page_gains"].rows
    ]

    assert [row["ratio"] for row in gains] == [one.ratio for one in pages.gains]
    assert {row["load"] for row in gains} >= {"all load levels"}
    assert len(tables["page_checks"].rows) == len(pages.checks)
    assert len(tables["page_translations"].rows) == len(pages.translations)


def test_runs_with_the_pages_they_asked_for_are_confirmed(pages: HugePageFindings) -> None:
    found = {check.arm: check for check in pages.checks}

    assert found["pages=2MB,scale=10"] == PageCheck(
        arm="pages=2MB,scale=10",
        page="2MB",
        runs=6,
        seen=6,
        confirmed=6,
        found=(2 * 1024.0**2,),
        transparent=0.0,
        pool=540 * 1024.0**2,
        used=540 * 1024.0**2,
        given_back=6,
        not_given_back=0,
    )
    assert found["pages=none,scale=10"].used == 0
    assert found["pages=1GB,scale=100"].found == (1024.0**3,)


def test_misses_are_per_transaction(pages: HugePageFindings, findings: Findings) -> None:
    """(500,000 + 100,000) / 9.7 s / throughput, and a share of 0.05 % of the loads."""
    cost = next(each for each in pages.translations if (each.arm, each.load_level) == ("pages=2MB,scale=10", 0))
    rates = [
        each.value
        for each in findings.observations
        if (each.arm, each.metric, each.load_level) == ("pages=2MB,scale=10", "pgbench.tps", 0)
    ]

    assert cost.misses is not None
    assert cost.misses.value == pytest.approx(sum(6e5 / 9.7 / rate for rate in rates) / 6)
    assert cost.miss_share is not None
    assert cost.miss_share.value == pytest.approx(0.0005)
    assert cost.code_misses is None
    assert pages.reason is None


def test_a_run_with_other_pages_and_a_pool_that_stayed_are_counted(
    bare: Path, measured: Values, tmp_path: Path
) -> None:
    run = next(run.id for run in read_evidence(bare).valid if run.slot.arm == "pages=2MB,scale=10")
    noted = shutil.copytree(bare, tmp_path / "noted")
    note_pages(noted, wrong=run, kept=run, reason="No counters.")
    found = describe_pages(read_evidence(noted), measured)

    assert found is not None
    check = next(each for each in found.checks if each.arm == "pages=2MB,scale=10")
    assert (check.confirmed, check.given_back, check.not_given_back) == (5, 5, 1)
    assert check.found == (4096.0, 2 * 1024.0**2)
    assert (found.translations, say(found.reason)) == ((), "No counters.")


def test_experiments_about_something_else_say_nothing_of_pages(evidence: Evidence, values: Values) -> None:
    assert describe_pages(evidence, values) is None


def test_without_notes_of_the_runs_nothing_is_confirmed(bare: Path, measured: Values) -> None:
    found = describe_pages(read_evidence(bare), measured)

    assert found is not None
    assert found.checks == ()
    assert say(found.reason) == "The misses were not counted in these runs."
