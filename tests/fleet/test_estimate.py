import tomllib

import pytest

from pgtrial.design.plan import make_plan
from pgtrial.errors import SpecError
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.fleet.estimate import MEMORY, AtWork, estimate_fleet, seconds_left
from pgtrial.fleet.fit import refuse_unfit
from pgtrial.fleet.hosts_file import parse_fleet
from support import EXPERIMENT


def plan(text: str = EXPERIMENT):
    return make_plan(Experiment.model_validate(tomllib.loads(text)))


def fleet(count: int):
    return parse_fleet("".join(f'[[host]]\nname = "h{n}"\nssh = "ssh://h{n}"\n' for n in range(count)), "hosts.toml")


def test_one_host_takes_as_long_as_without_a_fleet() -> None:
    estimate = estimate_fleet(plan(), fleet(1))

    assert estimate.seconds == pytest.approx(plan().estimate.total)
    assert estimate.alone == pytest.approx(estimate.seconds)


def test_blocks_are_shared_and_the_largest_share_takes_the_time() -> None:
    whole, estimate = plan().estimate, estimate_fleet(plan(), fleet(4))  # of 6 blocks

    assert [share.blocks for share in estimate.shares] == [2, 2, 1, 1]
    assert not estimate.is_balanced
    assert estimate.seconds == pytest.approx(whole.prepare + (whole.total - whole.prepare) * 2 / 6)


def test_the_memory_of_the_machine_that_leads_is_told_for_hosts_that_get_blocks() -> None:
    assert estimate_fleet(plan(), fleet(4)).memory == 4 * MEMORY
    assert estimate_fleet(plan(), fleet(8)).memory == 8 * MEMORY
    assert estimate_fleet(plan(), fleet(4), loaded_here=False).memory == 0  # its workers are elsewhere


def test_hosts_without_a_block_are_named() -> None:
    estimate = estimate_fleet(plan(), fleet(8))

    assert estimate.idle == ("h6", "h7")


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("[experiment]", '[target]\nkind = "server"\n\n[experiment]', "target.kind"),
        ("[experiment]", '[target]\nhost = "ssh://db"\n\n[experiment]', "target.host"),
        ("[experiment]", "[limits]\nprove = true\n\n[experiment]", "limits.prove"),
    ],
)
def test_what_does_not_go_with_a_fleet_is_refused(old: str, new: str, place: str) -> None:
    with pytest.raises(SpecError) as caught:
        refuse_unfit(plan(EXPERIMENT.replace(old, new)))

    assert [problem.path for problem in caught.value.problems] == [place]
    assert caught.value.hint


@pytest.mark.parametrize(
    ("design", "place"),
    [
        ('stop = "decision"', "design.stop"),
        ('stop = "precision"\nprecision = "3%"', "design.stop"),
        ('soak = "10min"', "design.soak"),
    ],
)
def test_what_looks_at_one_host_s_blocks_is_refused(design: str, place: str) -> None:
    text = EXPERIMENT.replace("placebo = true", "").replace("blocks = 6", design)
    with pytest.raises(SpecError) as caught:
        refuse_unfit(plan(text))

    assert [problem.path for problem in caught.value.problems] == [place]
    assert caught.value.exit_code == 2
    assert caught.value.hint


def test_an_experiment_of_fixed_length_goes_to_several_hosts() -> None:
    refuse_unfit(plan())


def test_nothing_is_said_of_the_time_left_before_a_block_is_done() -> None:
    assert seconds_left(3, [AtWork(seconds=None, has_been=5.0)]) is None


def test_the_time_left_is_that_of_hosts_as_fast_as_they_were() -> None:
    """Of 4 waiting blocks the fast host is done with 3 after 30 s, and the slow one with the other after 25 s; a fifth
    goes to the slow one, which is free first.
    """
    fast, slow = AtWork(seconds=10.0, has_been=None), AtWork(seconds=25.0, has_been=None)

    assert seconds_left(4, [fast, slow]) == 30.0
    assert seconds_left(5, [fast, slow]) == 50.0


def test_what_is_begun_is_taken_off_the_time_left() -> None:
    assert seconds_left(0, [AtWork(seconds=10.0, has_been=4.0), AtWork(seconds=25.0, has_been=30.0)]) == 6.0
    assert seconds_left(1, [AtWork(seconds=10.0, has_been=4.0)]) == 16.0


def test_a_host_without_a_block_is_taken_for_a_usual_one() -> None:
    known = [AtWork(seconds=seconds, has_been=0.0) for seconds in (10.0, 12.0, 50.0)]

    assert seconds_left(1, [*known, AtWork(seconds=None, has_been=None)]) == 50.0
    assert seconds_left(0, [known[0], AtWork(seconds=None, has_been=4.0)]) == 10.0
