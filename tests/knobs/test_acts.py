import pytest

from pgtrial.findings.catalogue import ENTRIES
from pgtrial.findings.catalogue.engagement import ACTS
from pgtrial.knobs import KNOBS
from pgtrial.knobs.declaration import Acts, Outlook
from pgtrial.model.series import find_metric

DECLARED = [(name, acts) for name, knob in KNOBS.items() for acts in knob.acts]


@pytest.mark.parametrize(("name", "acts"), DECLARED, ids=lambda part: part if isinstance(part, str) else part.code)
def test_evidence_is_of_metrics_that_are_sampled_and_has_words(name: str, acts: Acts) -> None:
    assert all(find_metric(metric) is not None for metric in acts.metrics), name
    if acts.metrics:
        assert acts.least > 0 or acts.of_value > 0
        assert {f"acts.{acts.code}", f"needs.{acts.code}"} <= ENTRIES.keys()


def test_no_words_are_left_over() -> None:
    assert {code.partition(".")[2] for code in ACTS} == {acts.code for _, acts in DECLARED if acts.metrics}


def outlook(*values: str, **known: object) -> Outlook:
    facts = {"data": 1e9, "seconds": 60.0, "writes": True, "sorts": True, "swap": 2**30, **known}
    return Outlook(values=values, **facts)  # type: ignore[arg-type]  # each test gives what it is about


@pytest.mark.parametrize(
    ("knob", "key", "seen", "why"),
    [
        ("postgresql", "shared_buffers", outlook("2GB", "4GB"), "fit into the shared buffers of every arm"),
        ("postgresql", "shared_buffers", outlook("128MB", "4GB"), ""),
        ("postgresql", "shared_buffers", outlook("16384", "4GB"), ""),
        ("postgresql", "work_mem", outlook("4MB", "64MB", sorts=False), "no statement"),
        ("postgresql", "work_mem", outlook("4MB", "64MB"), ""),
        ("postgresql", "checkpoint_timeout", outlook("5min", "15min"), "no checkpoint is due in the 1 min"),
        ("postgresql", "checkpoint_timeout", outlook("30s", "15min"), ""),
        ("postgresql", "checkpoint_timeout", outlook("30", "900", writes=False), "the load changes no data"),
        ("postgresql", "wal_compression", outlook("on", "off", writes=False), "the load changes no data"),
        ("postgresql", "gallery.mix", outlook("1", "2", writes=False), ""),
        ("postgresql", "huge_pages", outlook("off", "on"), ""),
        ("sysctl", "vm.swappiness", outlook("1", "60", swap=0), "the machine has no swap space"),
        ("sysctl", "vm.swappiness", outlook("1", "60", swap=None), ""),
        ("sysctl", "vm.dirty_ratio", outlook("10", "20", writes=False), "the load changes no data"),
    ],
)
def test_what_is_known_before_the_runs(knob: str, key: str, seen: Outlook, why: str) -> None:
    acts = KNOBS[knob].acts_of(key)

    assert acts is not None
    assert (why in acts.idle(seen)) if why else acts.idle(seen) == ""


def test_of_a_setting_that_is_not_known_there_is_no_evidence() -> None:
    assert KNOBS["postgresql"].acts_of("geqo_seed") is None
    assert KNOBS["sysctl"].acts_of("net.core.somaxconn") is None
