import tomllib

import pytest

from pgtrial.design.spread import refuse_spread
from pgtrial.errors import SpecError
from pgtrial.experiment_file.experiment import Experiment
from support.simulation import EXPERIMENT


def make(design: str) -> Experiment:
    return Experiment.model_validate(tomllib.loads(EXPERIMENT + design))


@pytest.mark.parametrize("rule", ['stop = "decision"', 'stop = "precision"\nprecision = "3%"'])
def test_a_rule_for_stopping_is_refused_on_several_hosts(rule: str) -> None:
    experiment = make(rule + "\n")

    refuse_spread(experiment, hosts=1)
    with pytest.raises(SpecError, match="cannot be used with 4 hosts") as caught:
        refuse_spread(experiment, hosts=4)

    assert caught.value.exit_code == 2
    assert 'stop = "never"' in caught.value.hint


def test_an_experiment_of_fixed_length_may_be_spread() -> None:
    refuse_spread(make(""), hosts=12)
