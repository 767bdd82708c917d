"""What is written of how true a load is, and the experiment file of the scripts that can be sent."""

import json
from dataclasses import replace

import pytest

from pgtrial.postgres.production import Load, Statement
from pgtrial.postgres.production_effects import Effects
from pgtrial.workloads.production.failures import Failure
from pgtrial.workloads.production.record import (
    FITTED,
    Drift,
    Match,
    Truth,
    find_drifts,
    match,
    nearest,
    only_scripts,
    record_of,
    truth_text,
)
from pgtrial.workloads.production.scripts import derive_scripts

RECORD = {
    "seconds": 2.0,
    "scripts": [{"name": "s001"}, {"name": "s002"}],
    "left_out": [],
    "hidden": 0,
    "counted_for": None,
    "triggers": ["orders: trigger audit calls log_it"],
    "transactions": {"commits": 7, "explained": 7, "levels": {}},
}
FAILURE = Failure(script="s002", statement="UPDATE t SET a = :v0_1", error="ERROR:  no")


def found(name: str, blocks: int) -> Match:
    original = Statement(text="SELECT a FROM t", calls=10, rows=10, hit=100, read=0, time=1.0)
    copy = Statement(text="SELECT a FROM t", calls=10, rows=10, hit=blocks, read=0, time=1.0)
    return Match(script=name, original=original, copy=copy)


def test_what_is_known_too_little_is_said():
    failing = Truth(draw="rows", matches=(found("s001", 100),), drawing=0.0, failures=(FAILURE,))
    empty = Truth(draw="keys", matches=(), drawing=0.0, failures=(FAILURE,))

    said = truth_text(RECORD, (failing, empty), ())
    assert "The original's are means of" not in said
    assert "The original's are means of 1 h 5 min." in truth_text({**RECORD, "counted_for": 3900.0}, (), ())

    assert "Runs on a copy, too: orders: trigger audit calls log_it; look at its body.\n" in said
    assert "Transactions: 7 of 7 explicit ones told, by nothing but equal counts of calls" in said
    assert "s002 fails, and is not in these figures: UPDATE t SET a = :v0_1: ERROR:  no\n" in said
    of_rows, of_keys = said.split("## ")[1:3]
    assert "blocks of a call by 0% at most" in of_rows
    assert "None of its scripts can be sent." in of_keys
    assert "at most" not in of_keys


def test_a_statement_that_takes_the_time_of_the_copy_alone_is_in_the_headline():
    """0.1 % of the original's time, and 38 % of the copy's."""
    heavy, light = found("s001", 100), found("s002", 300)
    light = Match(script="s002", original=replace(light.original, time=0.001), copy=replace(light.copy, time=0.6))
    truth = Truth(draw="rows", matches=(heavy, light), drawing=0.0)

    assert (truth.block_error(), truth.block_error(of_copy=False)) == (2.0, 0.0)
    assert "blocks of a call by 200% at most among the statements that make 90 % of the original's time" in truth_text(
        RECORD, (truth,), ()
    )


def counted(text: str, calls: int, blocks: int) -> Statement:
    return Statement(text=text, calls=calls, rows=calls, hit=blocks, read=0, time=1.0)


def test_blocks_that_depend_on_what_the_load_has_written_are_told():
    """Of the newest rows of a customer there are ever more to go through; of a look-up by key there are not."""
    newest, by_key, rare = "SELECT a FROM event", "SELECT a FROM t", "SELECT b FROM t"
    times = {newest: 5.0, by_key: 4.6, rare: 0.2}
    record = {
        "scripts": [
            {
                "name": f"s00{number}",
                "statements": [{"text": text, "calls": 9, "rows": 9, "hit": 9, "read": 0, "seconds": times[text]}],
            }
            for number, text in enumerate(times, start=1)
        ]
    }
    looks = [
        [counted(newest, calls, newest_blocks), counted(by_key, calls, 5 * calls), counted(rare, calls, calls**2)]
        for calls, newest_blocks in ((1000, 10_000), (1200, 20_000), (1400, 520_000))
    ]

    (drift,) = find_drifts(record, *looks)

    assert drift == Drift(script="s001", text=newest, first=50.0, second=2500.0)
    few = [[counted(newest, calls, calls**2)] for calls in (10, 60, 110)]
    assert find_drifts(record, *few) == ()
    truth = Truth(draw="rows", matches=(found("s001", 100),), drawing=0.0, drifts=(drift,))
    assert (
        "s001 goes through 50 blocks of a call in the first half of the time and through 2500 in the second "
        "(SELECT a FROM event)"
    ) in truth_text(RECORD, (truth,), ())


@pytest.mark.parametrize(("worse", "chosen"), [(100, "rows"), (5000, "keys")])
def test_the_nearest_load_has_a_script_from_where_it_does_not_fail(worse, chosen):
    rows = Truth(draw="rows", matches=(found("s001", worse),), drawing=0.0, failures=(FAILURE,))
    keys = Truth(draw="keys", matches=(found("s001", 200), found("s002", 9000)), drawing=0.0)

    assert nearest(RECORD, (rows, keys), ()) == {"s001": chosen, "s002": "keys"}
    assert FITTED not in nearest(RECORD, (rows, keys), ()).values()


def test_an_experiment_has_only_the_scripts_that_can_be_sent():
    scenarios = [
        f'[[workload.scenario]]\nname  = "s00{number}"\nfile  = "rows/s00{number}.sql"\nshare = 5\n'
        for number in (1, 2, 3)
    ]
    text = "\n".join(["[workload]\nclients = 4\n", *scenarios, "[arms.as_it_is]\n"])

    assert only_scripts(text, ("s001", "s003")) == text.replace(f"{scenarios[1]}\n", "")


def test_a_text_that_the_server_counts_apart_is_one_statement_as_on_the_copy():
    """The types that a driver gives to a parameter make several of one; the copy has no more than the text."""
    apart = "SELECT a FROM t WHERE id = $1"
    sent = [
        counted(f"{apart} /* by the page */", 1560, 4680),
        counted(f"{apart}", 40, 80),
        counted("UPDATE t SET a = $1 WHERE  id = $2", 400, 4000),
        counted('SELECT "a b" FROM t', 100, 100),
        counted('SELECT "ab" FROM t', 60, 60),
        counted("COMMIT", 40, 0),
    ]
    load = Load(
        statements=tuple(replace(each, types=("integer",) * each.text.count("$")) for each in sent),
        tables={},
        path=("public",),
        effects=Effects(),
        hidden=0,
    )
    derived = derive_scripts(load, with_values=False)
    record = json.loads(record_of(derived, {}, with_values=False))
    copied = [replace(each, calls=each.calls // 2) for each in sent]

    truth = Truth(draw="rows", matches=match(record, [], copied), drawing=0.0)

    assert sorted((each.original.text, each.original.calls) for each in truth.matches) == [
        ('SELECT "a b" FROM t', 100),
        ('SELECT "ab" FROM t', 60),
        (apart, 1600),
        ("UPDATE t SET a = $1 WHERE id = $2", 400),
    ]
    assert truth.share_error == 0


def test_what_a_name_has_in_it_is_no_part_of_the_table():
    reason = "it calls a|b<img src=x>`, which may do more than read and write rows" + " and more" * 20
    left_out = {"command": "SELECT|", "reason": reason, "statements": 1, "calls": 2, "seconds": 1.0}

    said = truth_text({**RECORD, "left_out": [left_out]}, (), ())

    (row,) = (line for line in said.splitlines() if "and more" in line)
    assert row.startswith("| SELECT\\| | it calls a\\|b&lt;img src=x>', which may do more")
    assert row.endswith(" and more | 1 | 2 | 50.0% |")
