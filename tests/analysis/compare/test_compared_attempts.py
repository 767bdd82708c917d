"""Whether all attempts at a claim are among the experiments that are compared, as far as these tell."""

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from calibration.trials import plan_trial
from pgtrial.analysis.compare.groups import Group, find_absent_attempts
from pgtrial.model.rules import RULES

EVIDENCE = plan_trial(random.Random(1))
UNTOLD = "Some of these experiments are later attempts at the claim, and which attempts belong together is not told: "


def group_of(*attempts: tuple[int | float | None, ...], rules: int = EVIDENCE.rules.version) -> Group:
    """Of experiments that are such attempts: the number of those before it, when the first one of its list was, and
    when it was itself.
    """
    keys = ("attempts_before", "attempts_since", "created")
    members = [
        SimpleNamespace(evidence=replace(EVIDENCE, rules=RULES[rules], **dict(zip(keys, each, strict=False))))
        for each in attempts
    ]
    return Group(workload={}, control={}, arm={}, members=tuple((cast(Any, member), "b") for member in members))


@pytest.mark.parametrize(
    "attempts",
    [
        [(0, 1.5), (1, 1.5), (0, 2.5), (1, 2.5), (2, 2.5)],  # two machines, whose attempts are all there
        [(0, 1.5), (0, 2.5), (0, 3.5), (0, None)],  # new machines
        [(0, None), (0, None), (0, None)],
        [(0, None), (1, None), (2, None)],  # one machine, in folders that do not name its list
        [(None, None), (None, None)],  # not counted
        [(0, None, 1.5), (1, 1.5)],  # of one machine, the first from before folders named the list
    ],
)
def test_nothing_is_absent_where_each_list_is_complete(attempts: list[tuple[int | float | None, ...]]) -> None:
    assert list(find_absent_attempts(group_of(*attempts))) == []


@pytest.mark.parametrize(
    ("attempts", "said"),
    [
        ([(0, 1.5), (2, 1.5)], "Of 3 attempts at the claim 1 is not among these experiments: "),
        ([(0, 1.5), (0, 2.5), (1, 3.5)], "Of 4 attempts at the claim 1 is not among these experiments: "),
        ([(2, 1.5), (0, 2.5)], "Of 4 attempts at the claim 2 are not among these experiments: "),
        ([(0, None), (1, None), (0, None), (1, None)], UNTOLD),  # all of two machines, or one each of four
        ([(0, 1.5), (1, 1.5), (1, 1.5), (2, 1.5)], UNTOLD),  # a list that went on in two places
        ([(0, None), (1, None), (2, 1.5)], UNTOLD),  # perhaps one list, in which folders were named later
    ],
)
def test_an_attempt_that_one_machine_leaves_out_is_not_hidden_by_that_of_another(
    attempts: list[tuple[int | float | None, ...]], said: str
) -> None:
    (caveat,) = find_absent_attempts(group_of(*attempts))

    assert (caveat.code, caveat.text.startswith(said)) == ("absent-attempts", True)


def test_by_older_rules_attempts_are_not_counted() -> None:
    assert list(find_absent_attempts(group_of((0, None), (2, None), rules=3))) == []
