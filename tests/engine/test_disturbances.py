import ast
import asyncio
from pathlib import Path
from typing import Any

import pytest

import pgtrial.engine
from pgtrial.analysis.validity import machine, runs
from pgtrial.engine.disturbances import machine as disturbances_machine
from pgtrial.engine.disturbances.base import Intent, Situation
from pgtrial.engine.disturbances.find import CHECKS, find_disturbances, has_assertions, look_at
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations
from pgtrial.model.caveat import Severity
from pgtrial.model.fingerprint import (
    CLOCK_SYNCHRONIZED,
    CPU_ALL,
    CPU_KERNEL,
    CPU_OTHERS,
    CPU_OWN,
    CPU_STEAL,
    CPU_TASKS,
    FREE,
    OTHERS,
    SIZE,
    SWAP_USED,
    THERMAL,
    WAL_FREE,
    WAL_SIZE,
)
from pgtrial.postgres.programs import Programs

FOLDER = Path(pgtrial.engine.__file__).parent / "disturbances"
DOCUMENT = Path(__file__).parents[2] / "docs" / "fingerprint.md"

# A quiet server: 10 s of CPU time have passed, of which 0.1 s were used.
BEFORE = {CPU_ALL: "100", CPU_TASKS: "50", CPU_STEAL: "1", THERMAL: "0"}
FACTS = {
    CPU_ALL: "110",
    CPU_TASKS: "50.1",
    CPU_STEAL: "1.01",
    CPU_OTHERS: "0.05",
    CPU_OWN: "0.05",
    CPU_KERNEL: "0",
    THERMAL: "0",
    SWAP_USED: "0",
    CLOCK_SYNCHRONIZED: "yes",
    "kernel/clocksource": "tsc",
    "kernel/kernel.numa_balancing": "0",
    "kernel/transparent_hugepage.enabled": "madvise",
    "kernel/vm.swappiness": "60",
    "kernel/vm.zone_reclaim_mode": "0",
    "limits/CPU quota": "unlimited",
    "limits/I/O": "unlimited",
    "limits/memory": "unlimited",
    "machine/CPU governor": "performance",
    "machine/CPU turbo": "off",
    "machine/CPUs usable by pgtrial": "16",
    "machine/NUMA nodes": "0-1",
    "machine/power": "mains",
    "machine/swap": "0 B",
}
PLACE = {
    "storage/data directory": "/srv/trial",
    "storage/data file system": "ext4",
    "storage/data device": "sda",
    "storage/data device model": "Micron 7450",
    SIZE: "1000000000",
    FREE: "500000000",
}


def situation(facts: dict[str, str] | None = None, place: dict[str, str] | None = None, **fields: Any) -> Situation:
    given: dict[str, Any] = {
        "intent": Intent(),
        "before": BEFORE,
        "facts": {**FACTS, **(facts or {})},
        "places": ({**PLACE, **(place or {})},),
    }
    return Situation(**(given | fields))


def test_on_a_quiet_server_nothing_is_remarked():
    assert find_disturbances(situation()) == ()


def test_where_nothing_is_known_nothing_is_remarked():
    assert find_disturbances(Situation(intent=Intent(), before={}, facts={})) == ()


@pytest.mark.parametrize(
    ("facts", "code", "severity", "text"),
    [
        (
            {CPU_OTHERS: "2.5", OTHERS: "restic 20.0 %, cron 5.0 %", CPU_TASKS: "52.55"},
            "other-programs",
            Severity.WARNING,
            "Other programs use 25.0 % of the CPU time: restic 20.0 %, cron 5.0 %.",
        ),
        ({CPU_TASKS: "53"}, "unseen-load", Severity.WARNING, "29.0 % of the CPU time"),
        ({CPU_STEAL: "2"}, "cpu-steal", Severity.WARNING, "10.0 % of the CPU time"),
        ({"limits/CPU quota": "1.5 CPUs"}, "cpu-quota", Severity.WARNING, "to 1.5 CPUs."),
        ({"machine/CPU governor": "powersave"}, "cpu-governor", Severity.WARNING, "is powersave."),
        (
            {"machine/CPU governor": "performance × 6, powersave × 2"},
            "cpu-governor",
            Severity.WARNING,
            "powersave × 2.",
        ),
        ({"machine/CPU turbo": "on"}, "cpu-turbo", Severity.INFO, "turbo is on."),
        ({THERMAL: "7"}, "thermal-throttling", Severity.WARNING, "7 times since the boot"),
        ({"machine/power": "battery"}, "battery", Severity.WARNING, "battery."),
        ({"machine/CPUs usable by pgtrial": "2"}, "few-cpus", Severity.INFO, "share 2 CPUs."),
        ({"machine/CPUs usable by pgtrial": "1"}, "few-cpus", Severity.INFO, "share 1 CPU."),
        ({"kernel/clocksource": "hpet"}, "clocksource", Severity.WARNING, "is hpet."),
        ({CLOCK_SYNCHRONIZED: "no"}, "clock-not-synchronized", Severity.INFO, "No time service"),
        ({"kernel/transparent_hugepage.enabled": "always"}, "transparent-huge-pages", Severity.WARNING, "(always)."),
        ({SWAP_USED: str(300 * 1024**2)}, "swap-in-use", Severity.WARNING, "300 MB of swap"),
        ({"machine/swap": "2 GB"}, "swappiness", Severity.INFO, "vm.swappiness is 60"),
        ({"limits/memory": "2 GB"}, "memory-limit", Severity.INFO, "to 2 GB of memory."),
        ({"kernel/vm.zone_reclaim_mode": "1"}, "zone-reclaim", Severity.WARNING, "is 1."),
        ({"kernel/kernel.numa_balancing": "1"}, "numa-balancing", Severity.INFO, "(0-1)"),
        ({"limits/I/O": "8:0 read 100/s"}, "io-limit", Severity.WARNING, "8:0 read 100/s."),
    ],
)
def test_what_disturbs_is_remarked(facts, code, severity, text):
    (remark,) = find_disturbances(situation(facts))

    assert (remark.code, remark.severity) == (code, severity)
    assert text in remark.text


@pytest.mark.parametrize(
    "facts",
    [
        {"kernel/clocksource": "kvm-clock"},
        {"kernel/clocksource": "arch_sys_counter"},
        {"kernel/kernel.numa_balancing": "1", "machine/NUMA nodes": "0"},
        {"machine/swap": "2 GB", "kernel/vm.swappiness": "1"},
        {SWAP_USED: "4096"},
        {CPU_OTHERS: "0.29", CPU_TASKS: "50.3"},
    ],
)
def test_what_is_harmless_is_not_remarked(facts):
    assert find_disturbances(situation(facts)) == ()


def test_heat_of_long_ago_is_no_warning():
    (remark,) = find_disturbances(situation({THERMAL: "7"}, before={**BEFORE, THERMAL: "7"}))

    assert remark.severity is Severity.INFO


@pytest.mark.parametrize(
    ("driver", "file"), [("intel_pstate", "intel_pstate/no_turbo"), ("acpi-cpufreq", "cpufreq/boost")]
)
def test_turbo_is_switched_off_where_the_driver_has_it(driver, file):
    (remark,) = find_disturbances(situation({"machine/CPU turbo": "on", "machine/CPU frequency driver": driver}))

    assert remark.command.endswith(file)


@pytest.mark.parametrize(
    ("place", "code", "text"),
    [
        ({FREE: "50000000"}, "little-space", "5.0 % of the file system of /srv/trial is free (47.7 MB)."),
        ({"storage/data file system": "tmpfs"}, "in-memory", "/srv/trial is on tmpfs."),
        ({"storage/data file system": "nfs4"}, "network-file-system", "/srv/trial is on nfs4."),
        ({"storage/data file system": "fuse.sshfs"}, "network-file-system", "fuse.sshfs"),
        ({"storage/data file system": "overlay"}, "overlay", "/srv/trial is on overlay."),
        (
            {"storage/data flushes": "are left out", "storage/data flushes decided by": "overlay, fsync=volatile"},
            "flushes-lost",
            "The data would lie where flushes are left out: /srv/trial (overlay, fsync=volatile).",
        ),
        ({"storage/data device model": "Amazon Elastic Block Store"}, "provider-disk", "on Amazon EBS"),
        (
            {
                "storage/WAL directory": "/wal",
                "storage/WAL file system": "tmpfs",
                WAL_SIZE: "100",
                WAL_FREE: "90",
            },
            "in-memory",
            "The WAL would lie in memory: /wal is on tmpfs.",
        ),
        (
            {"storage/WAL directory": "/wal", "storage/WAL file system": "xfs", WAL_SIZE: "100", WAL_FREE: "9"},
            "little-space",
            "of /wal is free",
        ),
    ],
)
def test_where_the_data_will_lie_is_looked_at(place, code, text):
    (remark,) = find_disturbances(situation(place=place))

    assert remark.code == code
    assert text in remark.text


def test_a_disk_inside_the_machine_has_no_credits():
    place = {"storage/data device model": "Amazon EC2 NVMe Instance Storage"}

    assert find_disturbances(situation({"machine/model": "Amazon EC2 i3.large"}, place)) == ()


def test_places_alike_are_remarked_once():
    other = {**PLACE, "storage/data directory": "/mnt", "storage/data file system": "tmpfs"}
    remarks = find_disturbances(situation(place={"storage/data file system": "tmpfs"}, places=(other, other)))

    assert [remark.code for remark in remarks] == ["in-memory"]


def test_what_is_in_memory_as_a_whole_is_remarked_once():
    facts = {"storage/data file system": "tmpfs", "storage/data flushes": "end in memory"}

    assert [remark.code for remark in find_disturbances(situation(place=facts))] == ["in-memory"]


def test_space_is_that_which_the_data_need():
    (remark,) = find_disturbances(situation(intent=Intent(bytes_needed=2e9)))

    assert remark.code == "no-space"
    assert remark.text == "477 MB are free in /srv/trial, and about 1.86 GB are needed."


@pytest.mark.parametrize(
    ("facts", "knobs"),
    [
        ({"kernel/transparent_hugepage.enabled": "always"}, {"transparent_huge_pages": {"enabled": "never"}}),
        ({"machine/swap": "2 GB"}, {"sysctl": {"vm.swappiness": "1"}}),
        ({"machine/swap": "2 GB"}, {"sysctl": {"vm/swappiness": "1"}}),
        ({"kernel/vm.zone_reclaim_mode": "1"}, {"sysctl": {"vm.zone_reclaim_mode": "0"}}),
        ({"kernel/kernel.numa_balancing": "1"}, {"sysctl": {"kernel.numa_balancing": "0"}}),
    ],
)
def test_what_the_file_sets_is_not_what_disturbs(facts, knobs):
    assert find_disturbances(situation(facts, intent=Intent(knobs={"a": {}, "b": knobs}))) == ()
    assert len(find_disturbances(situation(facts, intent=Intent(knobs={"a": {"sysctl": {"vm.other": "1"}}})))) == 1


@pytest.mark.parametrize(("name", "code"), [("fsync", "fsync-off"), ("full_page_writes", "full-page-writes-off")])
def test_safety_that_all_arms_switch_off_is_remarked(name, code):
    off, on = ({"postgresql": {name: value}} for value in ("OFF", "on"))
    (remark,) = find_disturbances(situation(intent=Intent(knobs={"a": off, "b": off})))

    assert (remark.code, remark.severity) == (code, Severity.WARNING)
    assert find_disturbances(situation(intent=Intent(knobs={"a": on, "b": off}))) == ()


def test_more_threads_than_cpus_are_remarked():
    (remark,) = find_disturbances(situation(intent=Intent(threads=17)))

    assert remark.text == "The file asks for 17 threads of pgbench, and there are 16 CPUs."


def test_many_more_clients_than_cpus_are_remarked():
    (remark,) = find_disturbances(situation(intent=Intent(clients=400)))

    assert (remark.code, remark.severity) == ("many-clients", Severity.INFO)


def test_what_runs_here_already_and_what_does_not_is_remarked():
    remarks = find_disturbances(
        situation(other_servers=2, with_assertions=("/opt/pg/bin",), missing=("no PostgreSQL 18 programs found",))
    )

    assert [(remark.code, remark.severity) for remark in remarks] == [
        ("no-programs", Severity.WARNING),
        ("assertions", Severity.WARNING),
        ("other-servers", Severity.INFO),
    ]
    assert remarks[0].text == "No PostgreSQL 18 programs found."
    assert remarks[2].text == "2 other PostgreSQL servers run here."


def test_warnings_come_first():
    remarks = find_disturbances(situation({"machine/CPU turbo": "on", "machine/power": "battery", THERMAL: "3"}))

    assert [remark.severity for remark in remarks] == [Severity.WARNING, Severity.WARNING, Severity.INFO]


def test_remarks_are_sentences():
    worst = situation(
        {**dict.fromkeys(FACTS, "1"), "machine/CPU turbo": "on", "machine/power": "battery"},
        {"storage/data file system": "tmpfs", FREE: "1"},
        other_servers=1,
        with_assertions=("/opt/pg/bin",),
        missing=("nothing found",),
    )
    remarks = find_disturbances(worst)

    assert len(remarks) > 12
    for remark in remarks:
        assert remark.text.endswith(".")
        assert remark.why.endswith(".")
        assert remark.remedy.endswith(":" if remark.command else ".")


def test_the_thresholds_are_those_by_which_runs_are_judged():
    assert disturbances_machine.OTHERS_SHARE == machine.OTHERS_SHARE
    assert disturbances_machine.UNSEEN_SHARE == machine.UNSEEN_SHARE
    assert disturbances_machine.STEAL_SHARE == runs.STEAL_SHARE


def test_every_check_is_registered():
    names = [
        node.name
        for path in FOLDER.glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
    ]

    assert sorted(names) == sorted(check.__name__ for check in CHECKS)


def test_every_remark_is_documented():
    codes = {
        keyword.value.value
        for path in FOLDER.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    }
    text = DOCUMENT.read_text(encoding="utf-8").partition("## Before an experiment")[2]

    assert len(codes) > 20
    assert {code for code in codes | {"fsync-off", "full-page-writes-off"} if f"`{code}`" not in text} == set()


def test_this_machine_can_be_looked_at(tmp_path):
    intent = Intent(places=((str(tmp_path),),), postgres=())
    seen = asyncio.run(look_at(LocalHost(), intent, sample=0.05))

    assert seen.places[0]["storage/data directory"] == str(tmp_path)
    assert seen.cpu_share(seen.increase(CPU_ALL)) == 1.0
    assert isinstance(find_disturbances(seen), tuple)


def test_programs_that_are_not_there_are_told():
    seen = asyncio.run(look_at(LocalHost(), Intent(postgres=("/no/where",)), sample=0))

    assert seen.missing == ('no PostgreSQL programs in "/no/where"',)


@pytest.mark.parametrize(("answer", "found"), [("echo on", True), ("echo off", False), ("exit 1", False)])
def test_a_server_says_whether_it_has_assertions(answer, found, tmp_path):
    postgres = tmp_path / "postgres"
    postgres.write_text(f"#!/bin/sh\n{answer}\n")
    postgres.chmod(0o755)
    programs = Programs(directory=tmp_path, version="18.1", major=18, origin="PATH")

    assert has_assertions(Operations(), programs) is found


def test_real_programs_are_asked_without_a_cluster(each_programs):
    argv = [str(each_programs.path("postgres")), "-C", "debug_assertions", "-D", "/", "-c", "config_file=/dev/null"]

    assert Operations().output(argv).strip() in ("on", "off")
    assert has_assertions(Operations(), each_programs) is (Operations().output(argv).strip() == "on")
