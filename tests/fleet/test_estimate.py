import tomllib

import pytest

from pgtrial.design.plan import make_plan
from pgtrial.errors import SpecError
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.fleet.estimate import estimate_fleet
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


@pytest.mark.parametrize("design", ['stop = "decision"', 'soak = "10min"'])
def test_what_looks_at_one_host_s_blocks_is_refused(design: str) -> None:
    text = EXPERIMENT.replace("placebo = true", "").replace("blocks = 6", design)
    with pytest.raises(SpecError, match="cannot be used with 2 hosts"):
        refuse_unfit(plan(text))
