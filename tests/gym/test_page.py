"""Scores, and the page that is written from stored counts."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gym.contenders.benchstat import Benchstat
from gym.contenders.pgtrial import MARGIN, Pgtrial
from gym.results import History, Results
from gym.scores import EFFECTS, Cell
from gym.streams import STREAMS

from gym import __main__ as runner
from gym import exceptions, page, results, scores, tables

ROOT = Path(__file__).parents[2]
PLACEHOLDER = f"# Gym\n\n{page.BEGIN}\n{page.END}\n\nBelow.\n"
BY_NAME = {stream.name: stream for stream in STREAMS}


def cell(**changed):
    made = Cell(
        stream="white",
        contender="benchstat",
        size=10,
        effect=0.0,
        experiments=1000,
        faster=20,
        slower=30,
        covered=None,
        minutes=4.0,
    )
    return replace(made, **changed)


def made_up():
    """benchstat that is right, hyperfine that raises alarms, and a method of pgtrial that refutes too often."""
    claims = dict.fromkeys(("better", "worse", "not-worse", "equivalent", "different"), 0)
    cells = []
    for effect in EFFECTS:
        cells += [
            cell(effect=effect, slower=900 if effect else 25),
            cell(effect=effect, contender="hyperfine", slower=900 if effect else 200, covered=700),
        ]
        cells += [
            cell(
                effect=effect,
                contender="pgtrial blocks",
                size=size,
                slower=share if effect else 20,
                covered=950,
                minutes=size / 2,
                supported=claims,
                refuted={**claims, "worse": 60 if effect == MARGIN and size == 12 else 0},
            )
            for size, share in ((6, 300), (12, 790), (20, 960))
        ]
    return Results(cells=tuple(cells), histories=(History(phi=0.6, points=300, series=100, alarms=99),))


def test_counts_of_a_contender_that_alarms_by_chance_alone_keep_to_its_level():
    cells = {(one.size, one.effect): one for one in scores.score(BY_NAME["white"], Benchstat(), 300)}

    assert not scores.exceeds(cells[10, 0.0].alarms, 300, 0.05)
    assert cells[20, 0.1].slower == 300
    assert cells[20, 0.1].minutes == pytest.approx(20 * 2 * 10 / 60)


def test_whoever_stops_spends_less_time_on_a_large_effect():
    contender = Pgtrial(method="duet", stops=True, sizes=(12,))
    cells = {one.effect: one for one in scores.score(BY_NAME["white"], contender, 40)}
    shares = cells[0.1].ends

    assert cells[0.1].minutes < cells[0.0].minutes
    assert [low <= middle <= high for middle, low, high in shares] == [True, True]
    assert cells[0.0].ends == ()


def test_experiments_of_a_fixed_size_do_not_end_by_themselves_and_the_smallest_size_tells_the_minutes():
    """They were taken as ended by a rule, so that the minutes were those of the largest size."""
    cells = [
        one for one in scores.score(BY_NAME["white"], Pgtrial(method="duet", sizes=(6, 8)), 40) if one.effect == 0.1
    ]

    assert [(one.size, one.slower, one.ends) for one in cells] == [(6, 40, ()), (8, 40, ())]
    assert results.minutes_to_truth(Results(cells=tuple(cells)), 0.1, 0.8)[0] == cells[0].minutes


def test_only_a_rule_or_somebody_who_looks_ends_a_stored_experiment():
    ending = {(one.stream, one.contender) for one in results.read().cells if one.ends}

    assert all(stream == "peeking" or contender.endswith(", stopping") for stream, contender in ending)


def test_peeking_without_a_rule_raises_more_alarms_than_a_single_look():
    (once,) = (
        one
        for one in scores.score(replace(BY_NAME["peeking"], peeks=False), Benchstat(), 300)
        if (one.size, one.effect) == (20, 0.0)
    )
    often = next(one for one in scores.score(BY_NAME["peeking"], Benchstat(), 300) if one.effect == 0.0)

    assert often.alarms > 2 * once.alarms


@pytest.mark.parametrize(
    ("claim", "small", "bound", "large"),
    [
        ("better", False, False, False),
        ("worse", False, None, True),
        ("not-worse", True, None, False),
        ("equivalent", True, None, False),
        ("different", False, None, True),
    ],
)
def test_claims_are_true_on_the_side_of_the_margin_that_they_name(claim, small, bound, large):
    assert [scores.is_true(claim, effect) for effect in (0.02, MARGIN, 0.05)] == [small, bound, large]


def test_wilson_intervals_are_the_published_ones():
    """Newcombe, Statist. Med. 17 (1998) 857-872, table I: 81 of 263, and 0 of 20."""
    assert scores.wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert scores.wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)


def test_minutes_to_a_true_verdict_are_those_of_the_smallest_size_that_does_it():
    mine = made_up().of(contender="pgtrial blocks")
    # 790 of 1000 may well be 80 %, so the error reaches down to 12 blocks.
    assert results.minutes_to_truth(mine, 0.05, 0.8) == (10.0, 6.0, 10.0)
    assert results.minutes_to_truth(mine, 0.05, 0.95) == (10.0, 10.0, math.inf)


def test_results_are_read_as_they_were_written(tmp_path):
    made = made_up()
    results.write(made, tmp_path / "results")

    assert results.read(tmp_path / "results") == made


def test_new_results_replace_those_of_their_stream():
    old, new = made_up(), Results(cells=(cell(stream="drift"),))
    merged = results.merge(old, new)

    assert merged.cells == (*old.cells, *new.cells)
    assert merged.histories == old.histories
    assert results.merge(merged, Results(cells=(cell(slower=1),))).of(stream="white").cells == (cell(slower=1),)


def test_the_page_says_where_pgtrial_is_wrong_and_where_it_loses():
    text = page.render(made_up())
    worst = "white, pgtrial blocks: 6.0 (4.7–7.6) of 2.5 % (worse, 12 blocks, 3 % slower), false “refuted”"

    assert worst in exceptions.render(made_up())
    assert "exceptions with 1 of these streams and methods" in text
    assert "white, 1 %: benchstat after 4.0 minutes, the best method 10.0 minutes." in text
    # hyperfine is as quick, but alarms of one who always alarms prove nothing.
    assert "hyperfine after" not in text
    assert "| **hyperfine** |" in text


def test_only_what_is_between_the_marks_is_written(tmp_path):
    target, chart = tmp_path / "gym.md", tmp_path / "chart.svg"
    target.write_text(PLACEHOLDER)
    page.write_page(made_up(), target, chart)
    once = target.read_text()
    page.write_page(made_up(), target, chart)

    assert target.read_text() == once
    assert once.startswith("# Gym")
    assert once.endswith("Below.\n")
    assert "22%" in chart.read_text()


def test_the_page_is_that_of_the_stored_results():
    text = page.PAGE.read_text(encoding="utf-8")

    assert page.render(results.read()) in text
    for name in re.findall(r"\(assets/([^)]+)\)", text):
        assert (ROOT / "docs" / "assets" / name).is_file()


def test_each_contender_and_stream_is_on_the_page():
    text = page.PAGE.read_text(encoding="utf-8")

    assert {name for name, _ in tables.SHOWN} == {contender.name for contender in runner.CONTENDERS}
    assert all(f"| {stream.name} |" in text for stream in STREAMS)


def test_a_quick_run_grades_all_and_writes_nothing(monkeypatch, capsys):
    monkeypatch.setattr(results, "write", lambda *_: pytest.fail("results are written"))
    monkeypatch.setattr(runner, "QUICK", 4)
    assert runner.main(["--quick"]) == 0
    printed = capsys.readouterr().out

    for contender in ("pgtrial duet, stopping", "single pair, 5 %"):
        assert re.search(rf"failures +{contender} +\d+ false alarms of ", printed)


def test_an_unknown_stream_is_refused(capsys):
    with pytest.raises(SystemExit):
        runner.main(["--only", "nonsense"])
    assert "unknown: nonsense; there are white" in capsys.readouterr().err


def test_otava_is_pinned_by_version_and_hash_without_an_address():
    text = (ROOT / "gym" / "otava.lock").read_text()
    entries = text.replace("\\\n", "").splitlines()

    assert any(entry.startswith("apache-otava==0.8.0 ") for entry in entries)
    assert all("--hash=sha256:" in entry for entry in entries if not entry.lstrip().startswith("#"))
    for trace in ("://", "@", "--index", "--find-links", "--trusted-host"):
        assert trace not in text


def test_histories_without_a_change_have_the_noise_that_is_said(monkeypatch):
    seen = []
    monkeypatch.setattr(runner, "find_changes", lambda histories: [seen.append(one) or [] for one in histories])
    found = runner.find_false_changes(0.6, 50)
    values = np.array(seen) / 100 - 1

    assert (found.series, found.alarms, values.shape) == (50, 0, (50, 300))
    assert values.std() == pytest.approx(0.03, rel=0.1)
