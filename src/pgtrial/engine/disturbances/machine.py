"""Disturbances of a measurement: CPUs, clocks, heat, and other users of the machine."""

from collections.abc import Iterator

from pgtrial.engine.disturbances.base import Disturbance, Situation
from pgtrial.engine.fingerprint.limits import UNLIMITED
from pgtrial.model.caveat import Severity
from pgtrial.model.fingerprint import (
    CLOCK_SYNCHRONIZED,
    CPU_KERNEL,
    CPU_OTHERS,
    CPU_OWN,
    CPU_STEAL,
    CPU_TASKS,
    OTHERS,
    THERMAL,
)
from pgtrial.units import format_percent

OTHERS_SHARE = 0.03  # of the CPU time of the machine, as after a run
UNSEEN_SHARE = 0.1
STEAL_SHARE = 0.01
CLIENTS_PER_CPU = 20
# Read without a system call, or nearly so.
_QUICK_CLOCKS = {
    "tsc",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "arch_sys_counter",
    "timebase",
    "tod",
    "riscv_clocksource",
}
_CLOCK = "/sys/devices/system/clocksource/clocksource0"
_CPU = "/sys/devices/system/cpu"


def check_other_load(situation: Situation) -> Iterator[Disturbance]:
    share = situation.cpu_share(situation.number(CPU_OTHERS))
    if share > OTHERS_SHARE:
        named = situation.facts.get(OTHERS, "")
        yield Disturbance(
            code="other-programs",
            severity=Severity.WARNING,
            text=f"Other programs use {format_percent(share)} of the CPU time{f': {named}' if named else ''}.",
            why="Their load varies, and takes CPU time from the server and the load generator.",
            remedy="Stop them, or measure while they are idle:",
            command="top -o %CPU",
        )


def check_unseen_load(situation: Situation) -> Iterator[Disturbance]:
    used = situation.increase(CPU_TASKS)
    seen = [situation.number(name) or 0.0 for name in (CPU_OTHERS, CPU_OWN, CPU_KERNEL)]
    share = situation.cpu_share(None if used is None else used - sum(seen))
    if share > UNSEEN_SHARE:
        yield Disturbance(
            code="unseen-load",
            severity=Severity.WARNING,
            text=f"{format_percent(share)} of the CPU time is used by processes that cannot be seen from here.",
            why="They belong to other containers, and their load varies.",
            remedy="Measure on a dedicated machine, or give the container dedicated CPUs.",
        )


def check_steal(situation: Situation) -> Iterator[Disturbance]:
    share = situation.cpu_share(situation.increase(CPU_STEAL))
    if share > STEAL_SHARE:
        yield Disturbance(
            code="cpu-steal",
            severity=Severity.WARNING,
            text=f"The hypervisor gives {format_percent(share)} of the CPU time to other machines.",
            why="The share changes from minute to minute.",
            remedy="Use a machine with dedicated CPUs, or plan more blocks.",
        )


def check_other_servers(situation: Situation) -> Iterator[Disturbance]:
    count = situation.other_servers
    if count:
        yield Disturbance(
            code="other-servers",
            severity=Severity.INFO,
            text=f"{count} other PostgreSQL {'server runs' if count == 1 else 'servers run'} here.",
            why="They share memory, page cache and disk, even when nearly idle.",
            remedy="Stop those you do not need:",
            command="ps -o pid,user,args -C postgres",
        )


def check_cpu_count(situation: Situation) -> Iterator[Disturbance]:
    cpus = situation.number("machine/CPUs usable by pgtrial")
    clients, threads = situation.intent.clients, situation.intent.threads
    if cpus is None:
        return
    if threads is not None and threads > cpus:
        yield Disturbance(
            code="many-threads",
            severity=Severity.WARNING,
            text=f"The file asks for {threads} threads of pgbench, and there are {cpus:g} CPUs.",
            why="Its threads then compete with each other and with the server.",
            remedy="Leave threads out of [workload], or use fewer.",
        )
    if clients is not None and clients > CLIENTS_PER_CPU * cpus:
        yield Disturbance(
            code="many-clients",
            severity=Severity.INFO,
            text=f"Up to {clients} clients are to share {cpus:g} CPUs.",
            why="Most of them wait for a CPU most of the time, and this wait dominates the latencies.",
            remedy="If that is not what you want to know, use fewer clients, or a rate.",
        )
    if cpus <= 2:
        yield Disturbance(
            code="few-cpus",
            severity=Severity.INFO,
            text=f"Server and load generator share {cpus:g} {'CPU' if cpus == 1 else 'CPUs'}.",
            why="The load generator takes part of the CPU time, so an effect of the server looks smaller than it is.",
            remedy="Use heavier transactions or the prepared protocol, or a machine with more CPUs.",
        )


def check_governor(situation: Situation) -> Iterator[Disturbance]:
    governor = situation.facts.get("machine/CPU governor")
    if governor is not None and governor != "performance":
        yield Disturbance(
            code="cpu-governor",
            severity=Severity.WARNING,
            text=f"The CPU governor is {governor}.",
            why="The CPUs adapt their frequency to the load, with a delay.",
            remedy="Keep the frequency high until the next boot:",
            command=f"echo performance | sudo tee {_CPU}/cpufreq/policy*/scaling_governor",
        )


def check_turbo(situation: Situation) -> Iterator[Disturbance]:
    if situation.facts.get("machine/CPU turbo") == "on":
        is_intel = situation.facts.get("machine/CPU frequency driver", "").startswith("intel")
        switch = "echo 1 | sudo tee {}/intel_pstate/no_turbo" if is_intel else "echo 0 | sudo tee {}/cpufreq/boost"
        yield Disturbance(
            code="cpu-turbo",
            severity=Severity.INFO,
            text="CPU turbo is on.",
            why="The turbo frequency depends on heat and on how many other CPUs are busy.",
            remedy="For steadier but slower runs, switch it off until the next boot:",
            command=switch.format(_CPU),
        )


def check_heat(situation: Situation) -> Iterator[Disturbance]:
    count = situation.number(THERMAL)
    if count:
        is_now = (situation.increase(THERMAL) or 0) > 0
        yield Disturbance(
            code="thermal-throttling",
            severity=Severity.WARNING if is_now else Severity.INFO,
            text=f"CPUs have been slowed down {count:g} times since the boot because they were hot"
            f"{', and are just now' if is_now else ''}.",
            why="A hot machine is slower in its later runs.",
            remedy="Cool it better, or switch turbo off.",
        )


def check_power(situation: Situation) -> Iterator[Disturbance]:
    if situation.facts.get("machine/power") == "battery":
        yield Disturbance(
            code="battery",
            severity=Severity.WARNING,
            text="The machine runs on its battery.",
            why="To save power, it slows CPUs and disks down, more so as the battery drains.",
            remedy="Plug it in.",
        )


def check_cpu_limits(situation: Situation) -> Iterator[Disturbance]:
    quota = situation.facts.get("limits/CPU quota", UNLIMITED)
    if quota != UNLIMITED:
        yield Disturbance(
            code="cpu-quota",
            severity=Severity.WARNING,
            text=f"A control group limits what runs here to {quota}.",
            why="Once the quota of a tenth of a second is used up, server and load stand still until the next.",
            remedy="Raise the quota of the container or the service, or give it CPUs of its own instead.",
        )


def check_clock_source(situation: Situation) -> Iterator[Disturbance]:
    source = situation.facts.get("kernel/clocksource")
    if source is not None and source not in _QUICK_CLOCKS:
        yield Disturbance(
            code="clocksource",
            severity=Severity.WARNING,
            text=f"The clock source is {source}.",
            why="Reading that clock is slow, and server and load generator read it for every query.",
            remedy="Choose another one if there is, best of all tsc:",
            command=f"cat {_CLOCK}/available_clocksource",
        )


def check_clock_service(situation: Situation) -> Iterator[Disturbance]:
    if situation.facts.get(CLOCK_SYNCHRONIZED) == "no":
        yield Disturbance(
            code="clock-not-synchronized",
            severity=Severity.INFO,
            text="No time service keeps the clock.",
            why="If one is started during a run, it may set the clock, and the run is invalid.",
            remedy="Start it beforehand, and wait until it has settled:",
            command="timedatectl status",
        )


CHECKS = (
    check_other_load,
    check_unseen_load,
    check_steal,
    check_other_servers,
    check_cpu_count,
    check_cpu_limits,
    check_governor,
    check_turbo,
    check_heat,
    check_power,
    check_clock_source,
    check_clock_service,
)
