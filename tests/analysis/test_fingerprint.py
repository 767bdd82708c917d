from dataclasses import replace

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.findings import Fact
from pgtrial.analysis.fingerprint import describe_world, find_changes


def test_facts_have_a_group_and_a_name(evidence: Evidence) -> None:
    assert describe_world(evidence).facts == (
        Fact(group="PostgreSQL", name="version", value="15.7"),
        Fact(group="machine", name="CPUs", value="2"),
        Fact(group="kernel", name="release", value="6.1.0"),
    )


def test_a_fact_that_all_runs_agree_on_is_a_fact_of_the_experiment(evidence: Evidence) -> None:
    same = {run.id: {"kernel/vm.swappiness": "60"} for run in evidence.valid}
    world = describe_world(replace(evidence, fingerprints=same))

    assert world.facts == (Fact(group="kernel", name="vm.swappiness", value="60"),)
    assert world.differences == ()


def test_a_fact_that_changed_is_a_difference_and_no_fact(evidence: Evidence) -> None:
    changed = {run.id: {"kernel/vm.swappiness": "1" if run.id == 2 else "60"} for run in evidence.valid[:3]}
    changed_evidence = replace(evidence, fingerprints=changed)
    (difference,) = find_changes(changed_evidence)

    assert difference.values == {"run 1": "60", "run 2": "1", "run 3": "60"}
    assert describe_world(changed_evidence).facts == ()
    assert describe_world(changed_evidence).differences == (difference,)
