"""Limits that experiments in a folder prove: simulated, with elasticities that are known, against what rules name."""

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.causes.proofs import apply_proofs
from pgtrial.analysis.evidence import read_evidence
from pgtrial.design.limits import limits_to_prove, log_time
from pgtrial.errors import StoreError
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.load import examine
from pgtrial.export.bundle import copy_folder
from pgtrial.export.redaction import Redaction
from pgtrial.export.tables.causes import cause_tables
from pgtrial.findings.causes import Limit, Resource
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import message, say
from pgtrial.findings.questions import Ledger, LedgerEntry
from pgtrial.findings.record import Estimate
from pgtrial.narrate.facts import tell_facts
from pgtrial.report.html import render_html
from pgtrial.report.text import render_text
from pgtrial.store import layout
from support import EXPERIMENT, Simulation, write_result_folder

TEXT = EXPERIMENT.replace("[design]", "[limits]\nprove = true\n\n[design]")
FLUSH = {"flush": 0.8, "cpu": 0.2}
CPU = {"cpu": 0.9, "flush": 0.1}


def read(text: str) -> Experiment:
    experiment = examine(text, Path("/")).experiment
    assert experiment is not None
    return experiment


def write(folder: Path, truths: Mapping[str, Mapping[str, float]], *, text: str = TEXT, noise: float = 0.01) -> Path:
    """A folder with the proofs of some arms, in which throughput is a product of powers of the times."""
    write_result_folder(folder, text=text, simulation=Simulation(tps={"on": 300.0, "off": 600.0, "placebo": 300.0}))
    experiment = read(text)
    proofs = limits_to_prove(experiment, resolve_arms(experiment))
    for arm, truth in truths.items():
        proof = read(proofs[arm])
        assert proof.limits is not None
        tps = {}
        for point in resolve_arms(proof):
            names = [name.partition(".") for name in proof.limits.resources]
            logs = sum(truth.get(key, 0.0) * log_time(knob, point.knobs[knob][key]) for knob, _, key in names)
            tps[point.name] = 300 * math.exp(-logs)
        simulation = Simulation(tps=tps, run_sd=noise, slice_sd=0.01, block_sd=0.2, seed=5)
        write_result_folder(layout.proof_folder(folder, arm), text=proofs[arm], simulation=simulation)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("proofs") / "folder", {"on": FLUSH, "off": CPU})


@pytest.fixture(scope="module")
def found(folder: Path) -> Findings:
    return analyze(folder)


def limit_of(findings: Findings, arm: str) -> tuple[Resource, Resource | None]:
    assert findings.causes is not None
    (limit,) = (limit for limit in findings.causes.limits if limit.arm == arm)
    return limit.resource, limit.by_rules


def test_ledgers_of_the_arms_stand_in_the_findings(found: Findings) -> None:
    assert [ledger.of for ledger in found.proofs] == ["on", "off"]
    assert [ledger.entries[0].resource for ledger in found.proofs] == ["slowdown.flush", "slowdown.cpu"]
    assert found.proofs[0].total.value == pytest.approx(1, abs=0.1)
    assert found.ledger is None
    assert Findings.model_validate_json(found.model_dump_json()).proofs == found.proofs


def test_intervention_counts_where_rules_say_something_else(found: Findings) -> None:
    assert limit_of(found, "on") == (Resource.WAL_FLUSH, None)
    resource, by_rules = limit_of(found, "off")
    assert resource is Resource.CPU
    assert by_rules is not None
    assert by_rules is not Resource.CPU
    assert found.causes is not None
    words = say(found.causes.text)
    assert "off is limited by the CPU, and on by the flush of the WAL" in words
    assert "By experiment: What limits “on” most is the flush of the WAL and of files" in words
    assert "the experiment counts" in words or "as an experiment has proved" in words


def test_page_terminal_model_and_tables_have_them(found: Findings) -> None:
    page, lines = render_html(found), render_text(found)
    assert page.index('id="limits"') < page.index('id="proofs"') < page.index('id="checks"')
    assert "Throughput of “off” in per cent for" in page
    assert "What limits on, by experiment:\n  the flush of the WAL and of files " in lines
    facts = [fact for fact in tell_facts(found, with_texts=False) if fact.key[0] == "proof"]
    assert [fact.path for fact in facts][:2] == ["proofs[0].text.text", "proofs[0].entries[0].elasticity"]
    (table,) = (each for each in cause_tables(found) if each.name == "elasticities")
    assert len(table.rows) == 8


def test_copy_for_somebody_else_has_them_with_and_without_names(folder: Path, found: Findings, tmp_path: Path) -> None:
    for number, kinds in enumerate(((), Redaction)):
        to = tmp_path / str(number)
        to.mkdir()
        assert copy_folder(folder, to, kinds).left_out == ()
        assert analyze(to).proofs == found.proofs


def test_undecided_proof_takes_back_what_it_refutes(tmp_path: Path) -> None:
    truth = {"cpu": 0.5, "generator": 0.5}
    findings = analyze(write(tmp_path / "folder", {"on": truth}, noise=0.03))
    assert not findings.proofs[0].leads
    assert limit_of(findings, "on") == (Resource.UNDETERMINED, Resource.WAL_FLUSH)


def test_ledger_of_all_load_levels_says_nothing_about_one(tmp_path: Path) -> None:
    text = TEXT.replace("clients = 4", "clients = [2, 4]")
    findings = analyze(write(tmp_path / "folder", {"on": CPU}, text=text))
    assert findings.proofs[0].leads
    assert findings.causes is not None
    assert {limit.by_rules for limit in findings.causes.limits} == {None}


def test_link_in_the_place_of_a_proof_is_not_followed(folder: Path, tmp_path: Path) -> None:
    own = write(tmp_path / "folder", {})
    (own / layout.PROOFS).symlink_to(folder / layout.PROOFS)
    assert analyze(own).proofs == ()


def test_proof_of_another_arm_is_damage(tmp_path: Path) -> None:
    own = write(tmp_path / "folder", {"on": CPU})
    layout.proof_folder(own, "on").rename(layout.proof_folder(own, "off"))
    with pytest.raises(StoreError, match="damaged"):
        analyze(own)


def around(value: float, half: float) -> Estimate:
    return Estimate(value=value, low=value - half, high=value + half)


def ledger(times: Mapping[str, tuple[float, float]], *, total: tuple[float, float], of: str = "on") -> Ledger:
    """A constructed one whose first surely leads."""
    entries = tuple(
        LedgerEntry(resource=name, name=message(f"slowed.{name}"), step=1.5, elasticity=around(*value))
        for name, value in times.items()
    )
    return Ledger(
        of=of,
        metric="pgbench.tps",
        blocks=6,
        confidence=0.95,
        entries=entries,
        total=around(*total),
        rest=around(1 - total[0], total[1]),
        leads=True,
        fits=True,
        not_varied=(),
        text=message("ledger.nothing", arm=of),
    )


def limit(resource: Resource, *, arm: str = "on", detail: str = "") -> Limit:
    text = message("ledger.nothing", arm=arm)  # as good as any
    return Limit(arm=arm, load_level=0, resource=resource, detail=detail, text=text, suspects=(), is_apart=False)


@pytest.mark.parametrize(
    ("named", "proof"),
    [
        (Resource.CLIENT, ledger({"slowdown.cpu": (0.08, 0.03), "slowdown.flush": (0, 0.03)}, total=(0.09, 0.05))),
        (Resource.CLIENT, ledger({"slowdown.cpu": (0.02, 0.03), "slowdown.flush": (-0.1, 0.03)}, total=(-0.08, 0.05))),
        (Resource.SWAP, ledger({"slowdown.cpu": (0.10, 0.03), "slowdown.files": (0, 0.03)}, total=(0.1, 0.05))),
        (Resource.WRITE_BACK, ledger({"slowdown.cpu": (0.15, 0.03), "slowdown.files": (0, 0.03)}, total=(0.15, 0.05))),
    ],
    ids=["next to nothing", "nothing", "swap", "write-back"],
)
def test_no_rule_is_overruled_by_less_than_what_has_not_been_found(
    folder: Path, named: Resource, proof: Ledger
) -> None:
    as_ruled = limit(named)

    assert apply_proofs(read_evidence(folder), [as_ruled], [proof]) == (as_ruled,)


def test_no_rule_is_refuted_where_no_time_is_shown_to_matter(folder: Path) -> None:
    proof = ledger({"slowdown.flush": (0.02, 0.03), "slowdown.cpu": (-0.3, 0.03)}, total=(-0.28, 0.05))
    as_ruled = limit(Resource.CPU)

    assert apply_proofs(read_evidence(folder), [as_ruled], [proof]) == (as_ruled,)


@pytest.mark.parametrize(("smaller", "is_refuted"), [(0.2, True), (0.45, False)])
def test_what_the_sum_exceeds_one_by_refutes_no_rule(folder: Path, smaller: float, is_refuted: bool) -> None:
    """0.85 is surely more than both, and not surely more than 0.45 if it is as much too large as the sum is."""
    times = {"slowdown.cpu": (0.85, 0.03), "slowdown.flush": (smaller, 0.03), "slowdown.files": (0.05, 0.03)}
    proof = ledger(times, total=(1.3, 0.05)).model_copy(update={"leads": False})

    (found,) = apply_proofs(read_evidence(folder), [limit(Resource.WAL_FLUSH)], [proof])

    assert (found.resource is Resource.UNDETERMINED) is is_refuted


def test_less_than_what_has_not_been_found_still_refutes_what_is_smaller(folder: Path) -> None:
    proof = ledger({"slowdown.cpu": (0.3, 0.03), "slowdown.flush": (0, 0.03)}, total=(0.3, 0.05))

    (found,) = apply_proofs(read_evidence(folder), [limit(Resource.WAL_FLUSH)], [proof])

    assert (found.resource, found.by_rules, found.elasticity) == (Resource.UNDETERMINED, Resource.WAL_FLUSH, None)


@pytest.mark.parametrize(
    ("named", "times", "words"),
    [
        (Resource.LOCKS, ("slowdown.flush", "slowdown.cpu"), "What they are held for is the flush of the WAL"),
        (Resource.LWLOCKS, ("slowdown.cpu", "slowdown.flush"), "What they are held for is the CPU time of the server"),
        (Resource.AUTOVACUUM, ("slowdown.cpu", "slowdown.flush"), "What it costs is the CPU time of the server"),
        (Resource.MEMORY, ("slowdown.files", "slowdown.cpu"), "What it costs is reads and writes of files"),
    ],
)
def test_what_takes_the_proved_time_keeps_its_name_and_the_elasticity_has_its_own(
    folder: Path, named: Resource, times: tuple[str, str], words: str
) -> None:
    first, second = times
    proof = ledger({first: (0.9, 0.05), second: (0.1, 0.05)}, total=(1.0, 0.05))

    (found,) = apply_proofs(read_evidence(folder), [limit(named, detail="transactionid")], [proof])

    assert (found.resource, found.detail, found.by_rules) == (named, "transactionid", None)
    assert found.proved is not None
    assert found.proved is not named
    assert found.elasticity == proof.entries[0].elasticity
    assert words in say(found.text)
    assert "0.9" in say(found.text)


def test_two_names_of_one_proved_time_are_as_far_apart_as_the_rules_say(folder: Path) -> None:
    times = {"slowdown.flush": (0.9, 0.05), "slowdown.cpu": (0.1, 0.05)}
    proofs = [ledger(times, total=(1.0, 0.05), of=arm) for arm in ("on", "off")]
    named = [limit(Resource.LOCKS), limit(Resource.WAL_FLUSH, arm="off")]

    of_on, of_off = apply_proofs(read_evidence(folder), named, proofs)

    assert (of_on.proved, of_off.proved) == (Resource.WAL_FLUSH, Resource.WAL_FLUSH)
    assert of_off.is_apart is False
