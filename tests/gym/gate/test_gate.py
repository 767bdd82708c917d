"""The series of known migrations: its order, how it goes on, what it counts; and what a gate's status is read as."""

import os
import tomllib
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from gym.gate import __main__ as runner
from gym.gate import page, trials
from pgtrial.cli.checked import check_file

Migration = trials.Migration
SERIES = trials.Series(seed=7, each=10, machine="a machine")


def judged(number: int, migration: Migration, *, status: int | None = None) -> trials.Judged:
    """What would be kept of a gate, which is right unless the status says otherwise."""
    return trials.Judged(
        number=number,
        migration=migration,
        status=migration.right_status if status is None else status,
        started=1000.0,
        ended=1060.0 + number,
        blocks=6,
        ratio=0.1 if migration is Migration.BAD else 1.0,
        low=0.09,
        high=1.01,
    )


@pytest.fixture
def gates(monkeypatch):
    """No neighbour, and gates that answer at once; the list is what they were asked."""
    asked = list[int]()

    def judge(number: int, migration: Migration, results: Path, *, lock: int) -> trials.Judged:
        asked.append(number)
        return judged(number, migration)

    monkeypatch.setattr(runner, "disturbed", lambda **_: nullcontext())
    monkeypatch.setattr(runner, "_clear_up", lambda _: None)
    monkeypatch.setattr(runner, "judge", judge)
    return asked


def test_an_order_follows_from_its_seed_and_has_both_kinds_in_each_pair():
    plan = SERIES.plan

    assert replace(SERIES, seed=8).plan != plan
    assert Counter(plan) == {Migration.BAD: 10, Migration.HARMLESS: 10}
    assert all(plan[at] is not plan[at + 1] for at in range(0, len(plan), 2))
    assert {plan[at] for at in range(0, len(plan), 2)} == set(Migration)


def test_what_is_kept_is_read_as_it_was(tmp_path):
    series = replace(SERIES, judged=(judged(1, SERIES.plan[0]),))

    trials.write_series(series, tmp_path / "results.json")

    assert trials.read_series(tmp_path / "results.json") == series
    assert [number for number, _ in series.remaining] == list(range(2, 21))


def test_an_interrupted_series_goes_on_where_it_was(gates, tmp_path):
    done = tuple(judged(number, migration) for number, migration in SERIES.remaining[:18])

    series = runner.run_series(replace(SERIES, judged=done), tmp_path, limit=1e9)

    assert gates == [19, 20]
    assert trials.read_series(tmp_path / runner.RESULTS) == series
    assert not series.remaining


def test_none_is_begun_that_would_not_be_over_in_time(gates, tmp_path):
    done = (judged(1, SERIES.plan[0]),)  # it took a minute

    series = runner.run_series(replace(SERIES, judged=done), tmp_path, limit=30.0)

    assert gates == []
    assert series.judged == done


def test_another_series_in_the_same_place_is_refused(tmp_path):
    trials.write_series(SERIES, tmp_path / "results.json")

    assert runner.begin_or_go_on(tmp_path / "results.json", seed=None, each=10) == SERIES
    with pytest.raises(ValueError, match="a series of 10 with the seed 7"):
        runner.begin_or_go_on(tmp_path / "results.json", seed=None, each=2)


def test_a_few_are_printed_and_take_no_place_of_what_is_published(gates, tmp_path, capsys):
    before = page.RESULTS.read_bytes(), page.PAGE.read_bytes()

    assert runner.main(["--each", "1", "--results", str(tmp_path)]) == 0

    assert sorted(gates) == [1, 2]
    assert "| `DROP INDEX purchase_of_customer` | 1 | 1 | refuted 1 |" in capsys.readouterr().out
    assert (page.RESULTS.read_bytes(), page.PAGE.read_bytes()) == before


def test_a_published_series_goes_on_on_another_machine_and_says_so(tmp_path):
    published = tmp_path / "published.json"
    trials.write_series(replace(SERIES, judged=(judged(1, SERIES.plan[0]),)), published)

    series = runner.begin_or_go_on(tmp_path / "results.json", seed=None, each=10, published=published)

    assert [number for number, _ in series.remaining] == list(range(2, 21))
    assert series.machine == f"a machine, then {runner.describe_machine()}"


@pytest.mark.parametrize("migration", Migration)
def test_the_experiment_with_a_migration_is_valid_and_its_arms_work_at_the_same_time(migration, tmp_path):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this machine has one CPU")
    for name in ("gate.toml", "schema.sql", "history.sql", "buy.sql"):
        (tmp_path / name).write_text((trials.FOLDER / name).read_text())
    text = (trials.FOLDER / "gate.toml").read_text()
    (tmp_path / "gate.toml").write_text(f"{text}\n[arms.after.sql]\napply = '''{migration.statement}'''\n")

    checked = check_file(tmp_path / "gate.toml")

    assert checked.plan.method.method == "duet"
    assert tomllib.loads(text)["hypothesis"]["expect"] == "not-worse"


def test_a_wrong_verdict_is_counted_and_named():
    done = (judged(1, Migration.BAD), judged(2, Migration.BAD, status=4), judged(3, Migration.HARMLESS))

    text = page.render(replace(SERIES, judged=done))

    assert "| `DROP INDEX purchase_of_customer` | 2 | 1 | refuted 1, inconclusive 1 | -90.0% to -90.0% |" in text
    assert "| `ALTER TABLE purchase ADD COLUMN note text` | 1 | 1 | supported 1 |" in text


def test_the_table_of_the_page_is_that_of_the_results():
    text = page.PAGE.read_text(encoding="utf-8")

    assert page.render(trials.read_series(page.RESULTS)) in text
