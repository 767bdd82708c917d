"""For which hosts an experiment is checked, and which of them cannot run it."""

import tomllib
from pathlib import Path

import pytest

from pgtrial.cli.checked import check_text
from pgtrial.cli.on_fleet import check_for
from pgtrial.design.plan import make_plan
from pgtrial.errors import PreflightError
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.load import Place
from pgtrial.fleet.fit import places_of, refuse_host
from pgtrial.fleet.hosts_file import Fleet, FleetHost, HostsList

TEXT = """
format = 1
[experiment]
name = "small"
[target]
directory = "/only/on/hosts"
[workload]
mix = "select-only"
duration = "60s"
[arms.on.postgresql]
work_mem = "4MB"
[arms.off.postgresql]
work_mem = "8MB"
[design]
blocks = 2
method = "auto"
seed = 1
"""
HERE = FleetHost(name="here", local=True)


def over_ssh(count: int) -> tuple[FleetHost, ...]:
    return tuple(FleetHost(name=f"db{number}", ssh=f"ssh://db{number}") for number in range(1, count + 1))


def hosts(*each: FleetHost, scheduler: str | None = None) -> HostsList:
    return HostsList(fleet=Fleet(host=each), scheduler=scheduler)


def test_hosts_over_ssh_are_checked_alike_and_before_this_machine() -> None:
    found = places_of(hosts(HERE, *over_ssh(6)))

    assert [(alike.names, alike.place) for alike in found] == [
        ("db1, db2, db3, db4 and 2 more", Place(host="ssh://db1")),
        ("here", Place()),
    ]


def test_of_the_machines_of_workers_nothing_is_known_here() -> None:
    found = places_of(hosts(HERE, *over_ssh(1), scheduler="tls://scheduler"))

    assert [alike.place for alike in found] == [Place(host="ssh://db1", is_here=False), Place(is_here=False)]


def test_the_machine_of_a_worker_has_its_own_places_and_auto_takes_no_method_that_needs_cpus_for_all_arms() -> None:
    checked = check_for(
        hosts(HERE, scheduler="tls://scheduler"),
        lambda place: check_text(TEXT, "e.toml", Path("/"), on_host=True, place=place),
    )

    assert checked.plan.method.method in ("switchback", "blocks")
    assert {one.method for one in checked.plan.judgements if one.valid} >= {"interleaved", "duet"}
    assert checked.missing == ""
    assert checked.loaded.experiment.target.host is None


@pytest.mark.parametrize("method", ["interleaved", "blocks"])
def test_a_host_that_comes_later_is_asked_for_what_the_plan_needs(method: str) -> None:
    plan = make_plan(Experiment.model_validate(tomllib.loads(TEXT.replace("auto", method))))
    refuse_host(plan, HERE)
    if method == "blocks":
        refuse_host(plan, *over_ssh(1))
    else:
        with pytest.raises(PreflightError, match="only take turns on this one"):
            refuse_host(plan, *over_ssh(1))
