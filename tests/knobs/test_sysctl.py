import asyncio
import errno
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgtrial.errors import SettingError
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.sysctl import Sysctl
from pgtrial.knobs.sysctl_rules import REFUSALS, find_refusal
from pgtrial.model.change import Outcome
from support.killing import KILLS, MOMENTS, run_killed

OPS = Operations()
VM, NET = "/proc/sys/vm", "/proc/sys/net/ipv4"
SWAPPINESS = f"{VM}/swappiness"
RATIO, BYTES = f"{VM}/dirty_ratio", f"{VM}/dirty_bytes"
needs_rights = pytest.mark.skipif(
    not OPS.is_writable(SWAPPINESS), reason="kernel settings can only be changed by root, and not in a container"
)


@pytest.fixture
def host(tree, add_pair):
    tree.add(
        {
            SWAPPINESS: "60\n",
            f"{VM}/overcommit_memory": "0\n",
            f"{VM}/drop_caches": "0\n",
            f"{NET}/ip_local_port_range": "32768\t60999\n",
            f"{NET}/ip_local_reserved_ports": "\n",
            f"{NET}/ip_forward": "0\n",
            "/proc/sys/kernel/modules_disabled": "0\n",
            "/proc/sys/kernel/core_pattern": "core\n",
            "/proc/self/cgroup": "0::/user.slice\n",
        }
    )
    add_pair(tree, RATIO, BYTES)
    return tree


@pytest.fixture
def table(host, bench):
    return bench(Sysctl(), host)


def value(host, path: str) -> str:
    return host.read(path).strip()


def test_change_holds_the_file_and_both_values(table):
    (change,) = table.plan({"vm.swappiness": "1"})

    assert (change.knob, change.name) == ("sysctl", "vm.swappiness")
    assert (change.old, change.new) == ({SWAPPINESS: "60"}, {SWAPPINESS: "1"})
    assert (change.old_text, change.new_text) == ("60", "1")


def test_planning_touches_nothing(table, host):
    table.plan({"vm.swappiness": "1", "vm.dirty_bytes": "100000"})

    assert (value(host, SWAPPINESS), value(host, RATIO), value(host, BYTES)) == ("60", "20", "0")


@pytest.mark.parametrize(
    "wanted",
    [
        {"vm.swappiness": "60"},
        {"vm.swappiness": "0x3c"},
        {"net.ipv4.ip_local_port_range": "32768 60999"},
        {"vm.dirty_ratio": "20"},
        {"vm.dirty_bytes": "0"},
        {"vm.dirty_bytes": "0", "vm.dirty_ratio": "20"},
        {"vm.overcommit_memory": "off"},
    ],
)
def test_what_is_so_already_is_no_change(table, wanted: dict[str, str]):
    assert table.plan(wanted) == []


def test_true_and_false_are_one_and_zero_where_the_kernel_has_numbers(table, host):
    host.add({"/proc/sys/kernel/sched_kind": "ratelimit\n"})

    changes = table.plan({"vm.overcommit_memory": "on", "kernel.sched_kind": "on"})

    assert [list(change.new.values()) for change in changes] == [["1"], ["on"]]


def test_several_numbers_are_set_and_put_back(table, host):
    table.apply({"net.ipv4.ip_local_port_range": "20000 60999"})
    assert value(host, f"{NET}/ip_local_port_range") == "20000 60999"

    assert table.undo().outcome is Outcome.RESTORED
    assert value(host, f"{NET}/ip_local_port_range") == "32768\t60999"


def test_wrong_number_of_numbers_is_refused_before_it_sets_some(table):
    with pytest.raises(SettingError) as caught:
        table.plan({"net.ipv4.ip_local_port_range": "20000"})

    assert caught.value.message == 'net.ipv4.ip_local_port_range cannot be set to "20000"'
    assert caught.value.detail == "It holds 2 numbers: 32768 60999."


def test_empty_value_is_put_back(table, host):
    table.apply({"net.ipv4.ip_local_reserved_ports": "8080"})

    assert table.undo().outcome is Outcome.RESTORED
    assert host.read(f"{NET}/ip_local_reserved_ports") == "\n"
    assert table.entries[0].change.old_text == "empty"


def test_rounding_is_an_error_with_what_was_asked_and_got_and_can_be_undone(table, host):
    host.on_write[SWAPPINESS] = lambda text: host.add({SWAPPINESS: f"{min(int(text), 200)}\n"})

    with pytest.raises(SettingError, match=r"vm\.swappiness: asked for 500, got 200"):
        table.apply({"vm.swappiness": "500"})

    assert table.entries[0].got is None
    assert table.undo().outcome is Outcome.RESTORED
    assert value(host, SWAPPINESS) == "60"


def test_fewer_huge_pages_than_asked_for_are_an_error_with_advice(table, host):
    path = f"{VM}/nr_hugepages"
    host.add({path: "0\n"})
    host.on_write[path] = lambda text: host.add({path: f"{min(int(text), 37)}\n"})

    with pytest.raises(SettingError, match=r"vm\.nr_hugepages: asked for 64, got 37") as caught:
        table.apply({"vm.nr_hugepages": "64"})

    assert caught.value.hint.startswith("The kernel finds no more free memory")
    assert table.undo().outcome is Outcome.RESTORED


def test_refusal_of_the_kernel_names_setting_value_and_reason(table, host):
    def refuse(_text: str) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    host.on_write[SWAPPINESS] = refuse

    with pytest.raises(SettingError, match=r"vm\.swappiness cannot be set to lots") as caught:
        table.apply({"vm.swappiness": "lots"})

    assert "Invalid argument" in caught.value.detail


def test_nobody_but_root_is_told_so(table, host):
    host.uid = 1000

    with pytest.raises(SettingError, match=r"setting vm\.swappiness needs root"):
        table.plan({"vm.swappiness": "1"})


def test_setting_of_the_kernel_that_can_only_be_read(table, host):
    host.add({f"{VM}/told": "#1 SMP\n"})
    host.at(f"{VM}/told").chmod(0o444)

    with pytest.raises(SettingError, match=r"vm\.told can only be read"):
        table.plan({"vm.told": "#2"})


def test_setting_of_the_kernel_that_can_only_be_written(table, host):
    host.add({f"{VM}/new_action": ""})
    host.at(f"{VM}/new_action").chmod(0o200)

    with pytest.raises(SettingError, match=r"vm\.new_action cannot be varied") as caught:
        table.plan({"vm.new_action": "1"})

    assert caught.value.detail == "It can only be written, so its old value is unknown."


def test_same_setting_under_two_names_is_refused(table):
    with pytest.raises(SettingError, match=r'"vm\.swappiness" is given twice'):
        table.plan({"vm.swappiness": "1", "vm/swappiness": "2"})


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("vm.drop_caches", "3", "no value that could be put back"),
        ("kernel.modules_disabled", "1", "before the next reboot"),
        ("net.ipv4.ip_forward", "1", "changes other settings"),
    ],
)
def test_what_cannot_be_put_back_is_refused_with_the_reason(table, name: str, value: str, reason: str):
    with pytest.raises(SettingError, match=f"{name} cannot be varied") as caught:
        table.plan({name: value})

    assert reason in caught.value.detail


@pytest.mark.parametrize(
    ("name", "value", "refused"),
    [
        ("kernel/yama/ptrace_scope", "2", True),
        ("kernel/unprivileged_bpf_disabled", "2", True),
        ("kernel/kexec_load_disabled", "1", True),
        ("kernel/kexec_load_disabled", "0", True),
        ("kernel/core_pattern", "|/tmp/x", True),
        ("kernel/pid_max", "1", True),
        ("fs/file-max", "1", True),
        ("kernel/panic", "1", True),
        ("kernel/softlockup_panic", "1", True),
        ("kernel/sched_autogroup_enabled", "0", False),
        ("net/ipv6/conf/eth0/disable_ipv6", "1", True),
        ("net/ipv6/route/flush", "1", True),
        ("kernel/shm_rmid_forced", "1", True),
        ("vm/nr_hugepages", "64", False),
        ("kernel/randomize_va_space", "0", True),
        ("kernel/io_uring_disabled", "0", True),
        ("kernel/split_lock_mitigate", "0", True),
        ("vm/mmap_rnd_bits", "8", True),
        ("net/core/bpf_jit_enable", "2", True),
        ("net/ipv4/ip_unprivileged_port_start", "0", True),
        ("net/ipv4/conf/all/rp_filter", "0", True),
        ("kernel/acct", "x", True),
        ("kernel/of_a_kernel_to_come", "1", True),
        ("debug/exception-trace", "0", True),
        ("dev/tty/legacy_tiocsti", "1", True),
        ("vm/max_map_count", "65530", False),
        ("vm/max_map_count", "0x10", True),
        ("vm/max_map_count", "1e6", True),
        ("net/core/rmem_max", "8388608", False),
        ("net/ipv4/tcp_congestion_control", "bbr", False),
        ("kernel/numa_balancing", "0", False),
    ],
)
def test_one_way_values_and_others_of_the_same_setting(name: str, value: str, refused: bool):
    assert (find_refusal(name, value) is not None) == refused


def test_reasons_are_full_sentences():
    assert all(text.endswith(".") for refusal in REFUSALS for text in (refusal.reason, refusal.hint) if text)


# -- pairs -------------------------------------------------------------------------------------------------------------


def test_pair_is_one_change_with_both(table):
    (change,) = table.plan({"vm.dirty_bytes": "100000"})

    assert change.name == "vm.dirty_bytes, vm.dirty_ratio"
    assert (change.old_text, change.new_text) == ("0, 20", "100000, 0")
    assert list(change.old.items()) == [(RATIO, "20"), (BYTES, "0")]
    assert list(change.new.items()) == [(BYTES, "100000"), (RATIO, "0")]


@pytest.mark.parametrize("values", [("20", "0"), ("0", "200000"), ("0", "0")])
@pytest.mark.parametrize(
    "wanted",
    [
        {"vm.dirty_bytes": "100000"},
        {"vm.dirty_ratio": "10"},
        {"vm.dirty_bytes": "100000", "vm.dirty_ratio": "0"},
        {"vm.dirty_bytes": "0", "vm.dirty_ratio": "10"},
        {"vm.dirty_bytes": "0", "vm.dirty_ratio": "0"},
    ],
)
def test_pair_is_set_from_any_state_and_put_back(tree, bench, add_pair, values, wanted: dict[str, str]):
    add_pair(tree, RATIO, BYTES, values=values)
    table = bench(Sysctl(), tree)

    table.apply(wanted)
    assert {name: value(tree, f"{VM}/{name[3:]}") for name in wanted} == wanted

    if table.entries:
        assert table.undo().outcome is Outcome.RESTORED
    assert (value(tree, RATIO), value(tree, BYTES)) == values


def test_both_of_a_pair_is_refused(table):
    with pytest.raises(SettingError, match=r"vm\.dirty_ratio and vm\.dirty_bytes cannot both be set"):
        table.plan({"vm.dirty_bytes": "100000", "vm.dirty_ratio": "10"})


def test_half_of_a_pair_is_a_setting_like_any_where_the_other_is_missing(tree, bench):
    tree.add({RATIO: "20\n"})
    table = bench(Sysctl(), tree)

    (entry,) = table.apply({"vm.dirty_ratio": "10"})

    assert (entry.change.name, entry.change.old) == ("vm.dirty_ratio", {RATIO: "20"})
    assert table.undo().outcome is Outcome.RESTORED


def test_absolute_value_of_0_needs_a_ratio_when_it_is_in_force(tree, bench, add_pair):
    add_pair(tree, RATIO, BYTES, values=("0", "200000"))

    with pytest.raises(SettingError, match=r"vm\.dirty_bytes cannot be 0 by itself") as caught:
        bench(Sysctl(), tree).plan({"vm.dirty_bytes": "0"})

    assert caught.value.hint == "Set vm.dirty_ratio; that makes vm.dirty_bytes 0."


def test_pair_changed_by_somebody_else_is_left(table, host):
    table.apply({"vm.dirty_bytes": "100000"})
    host.write(RATIO, "30")

    undone = table.undo()

    assert undone.outcome is Outcome.CHANGED
    assert (value(host, RATIO), value(host, BYTES)) == ("30", "0")


def test_setting_that_changes_others_puts_them_back(tree, bench):
    control, allowed = f"{NET}/tcp_congestion_control", f"{NET}/tcp_allowed_congestion_control"
    tree.add({control: "cubic\n", allowed: "reno cubic\n"})
    tree.on_write[control] = lambda text: tree.add({control: f"{text}\n", allowed: "reno cubic bbr\n"})
    table = bench(Sysctl(), tree)

    (entry,) = table.apply({"net.ipv4.tcp_congestion_control": "bbr"})
    assert (entry.change.name, entry.change.new_text) == ("net.ipv4.tcp_congestion_control", "bbr")
    tree.on_write.clear()

    assert table.undo().outcome is Outcome.RESTORED
    assert (value(tree, control), value(tree, allowed)) == ("cubic", "reno cubic")


@pytest.mark.parametrize(
    ("groups", "noted"),
    [
        ("0::/user.slice\n", False),
        ("9:memory:/\n0::/\n", False),
        ("4:cpu,cpuacct:/a\n9:memory:/user.slice\n", True),
    ],
)
def test_swappiness_is_noted_where_a_control_group_has_its_own(table, host, groups: str, noted: bool):
    host.add({"/proc/self/cgroup": groups})

    (change,) = table.plan({"vm.swappiness": "1"})

    assert change.new_text == ('1 (but not in "/user.slice")' if noted else "1")


# -- swappiness of a control group of version 1


MOUNTS = "30 23 0:26 / /cg/memory rw - cgroup cgroup rw,memory\n31 23 0:27 / /cg/blkio rw - cgroup cgroup rw,blkio\n"
GROUP = "/cg/memory/pgtrial-token"
OF_GROUP = f"{GROUP}/memory.swappiness"


@pytest.fixture
def grouped(host, bench):
    """A server in groups of its own, of memory and of requests to the disk, on a host with version 1."""
    host.add({"/proc/self/mountinfo": MOUNTS, OF_GROUP: "40\n", "/cg/blkio/pgtrial-token/tasks": "\n"})
    table = bench(Sysctl(), host)
    table.context = replace(table.context, groups=("/cg/blkio/pgtrial-token", GROUP))
    return table


def test_swappiness_is_that_of_the_servers_group_too(grouped, host):
    first, second = grouped.apply({"vm.swappiness": "1"})

    assert (first.change.name, first.change.new_text) == ("vm.swappiness", "1")
    assert second.change.name == "memory.swappiness of the server's control group"
    assert (second.change.old, second.got) == ({OF_GROUP: "40"}, {OF_GROUP: "1"})
    assert (value(host, SWAPPINESS), value(host, OF_GROUP)) == ("1", "1")
    assert grouped.undo().outcome is Outcome.RESTORED
    assert (value(host, SWAPPINESS), value(host, OF_GROUP)) == ("60", "40")


def test_swappiness_of_a_group_is_set_where_that_of_the_machine_is_as_asked(grouped, host):
    (change,) = grouped.plan({"vm.swappiness": "60"})

    assert change.new == {OF_GROUP: "60"}
    assert grouped.plan({"vm.dirty_ratio": "20"}) == []


def test_swappiness_of_a_group_of_ours_goes_with_it(grouped, host):
    """It is removed when its server has stopped, which may be before the values that arms switch are put back."""
    grouped.apply({"vm.swappiness": "1"})
    shutil.rmtree(host.at(GROUP))

    assert grouped.undo(grouped.entries[1]).outcome is Outcome.ALREADY
    assert grouped.undo(grouped.entries[0]).outcome is Outcome.RESTORED


def test_swappiness_of_a_service_that_is_gone_is_told(grouped, host):
    service = "/cg/memory/postgresql.service"
    host.add({f"{service}/memory.swappiness": "60\n"})
    grouped.context = replace(grouped.context, groups=(service,))
    grouped.apply({"vm.swappiness": "1"})
    shutil.rmtree(host.at(service))

    assert grouped.undo(grouped.entries[1]).outcome is Outcome.CHANGED


def test_swappiness_of_a_group_to_come_is_planned_as_what_it_will_inherit(grouped, host):
    shutil.rmtree(host.at(GROUP))

    first, second = grouped.plan({"vm.swappiness": "1"})

    assert (first.new_text, second.old_text, second.new) == ("1", "60", {OF_GROUP: "1"})


def test_groups_of_version_2_have_no_swappiness(grouped, host):
    mounts = "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n"
    host.add({"/proc/self/mountinfo": mounts, "/cg/cgroup.controllers": "memory\n"})
    grouped.context = replace(grouped.context, groups=("/cg/pgtrial-token",))

    (change,) = grouped.plan({"vm.swappiness": "1"})

    assert change.new == {SWAPPINESS: "1"}


@given(applying=MOMENTS, undoing=KILLS)
@settings(deadline=None)
def test_killed_at_any_moment_swappiness_of_machine_and_group_is_put_back(make_tree, bench, applying, undoing):
    tree = make_tree()
    tree.add({SWAPPINESS: "60\n", "/proc/self/mountinfo": MOUNTS, OF_GROUP: "40\n", "/proc/self/cgroup": "0::/\n"})
    table = bench(Sysctl(), tree)
    table.context = replace(table.context, groups=(GROUP,))

    run_killed(table, {"vm.swappiness": "1"}, applying, undoing)

    assert (value(tree, SWAPPINESS), value(tree, OF_GROUP)) == ("60", "40")


# -- the real kernel ---------------------------------------------------------------------------------------------------


@pytest.fixture
def real(bench):
    return bench(Sysctl(), OPS)


@needs_rights
@pytest.mark.parametrize("pair", [(RATIO, BYTES), (f"{VM}/dirty_background_ratio", f"{VM}/dirty_background_bytes")])
def test_real_pair_in_both_directions(real, bench, kept, pair):
    ratio, absolute = pair
    kept(*sorted(pair, key=lambda path: Path(path).read_text() == "0\n"))
    # From the ratio to the absolute value, and from there to another ratio; undone in reverse.
    OPS.write(ratio, "19\n")
    table = bench(Sysctl(), OPS)
    table.apply({f"vm.{Path(absolute).name}": "104857600"})
    assert (value(OPS, ratio), value(OPS, absolute)) == ("0", "104857600")
    table.apply({f"vm.{Path(ratio).name}": "11"})
    assert (value(OPS, ratio), value(OPS, absolute)) == ("11", "0")

    assert table.undo(table.entries[1]).outcome is Outcome.RESTORED
    assert (value(OPS, ratio), value(OPS, absolute)) == ("0", "104857600")
    assert table.undo(table.entries[0]).outcome is Outcome.RESTORED
    assert (value(OPS, ratio), value(OPS, absolute)) == ("19", "0")


@needs_rights
def test_real_pair_of_which_neither_is_in_force(real, kept):
    kept(*sorted((RATIO, BYTES), key=lambda path: Path(path).read_text() == "0\n"))
    OPS.write(RATIO, "1\n")
    OPS.write(RATIO, "0\n")
    assert (value(OPS, RATIO), value(OPS, BYTES)) == ("0", "0")

    real.apply({"vm.dirty_bytes": "104857600"})

    assert real.undo().outcome is Outcome.RESTORED
    assert (value(OPS, RATIO), value(OPS, BYTES)) == ("0", "0")


@needs_rights
def test_real_setting_in_every_state_of_undoing(real, kept):
    kept(SWAPPINESS)
    old = value(OPS, SWAPPINESS)
    new = "7" if old != "7" else "8"
    (change,) = real.plan({"vm.swappiness": new})
    unconfirmed = real.begin(change)

    assert real.undo(unconfirmed).outcome is Outcome.ALREADY
    got = asyncio.run(Sysctl().apply(real.context, change))
    assert (got, value(OPS, SWAPPINESS)) == ({SWAPPINESS: new}, new)
    confirmed = replace(unconfirmed, got=got)
    assert asyncio.run(Sysctl().still_applied(real.host, confirmed)) == ""
    assert real.undo(replace(confirmed, boot_id="another boot")).outcome is Outcome.REBOOTED
    assert value(OPS, SWAPPINESS) == new
    assert real.undo(unconfirmed).outcome is Outcome.RESTORED
    assert value(OPS, SWAPPINESS) == old

    asyncio.run(Sysctl().apply(real.context, change))
    assert real.undo(confirmed).outcome is Outcome.RESTORED
    OPS.write(SWAPPINESS, "9\n")
    assert asyncio.run(Sysctl().still_applied(real.host, confirmed)) == f'"{SWAPPINESS}" was made {new} and is 9 now.'
    assert real.undo(confirmed).outcome is Outcome.CHANGED
    assert value(OPS, SWAPPINESS) == "9"


@needs_rights
def test_real_rounding_of_the_size_of_pipes(real, kept):
    path = "/proc/sys/fs/pipe-max-size"
    kept(path)
    old = value(OPS, path)

    with pytest.raises(SettingError, match=r"fs\.pipe-max-size: asked for 1048577, got 2097152"):
        real.apply({"fs.pipe-max-size": "1048577"})

    assert real.undo().outcome is Outcome.RESTORED
    assert value(OPS, path) == old


@needs_rights
def test_real_refusal_of_a_value_out_of_range(real, kept):
    kept(SWAPPINESS)

    with pytest.raises(SettingError, match=r"vm\.swappiness cannot be set to 100000") as caught:
        real.apply({"vm.swappiness": "100000"})

    assert "Invalid argument" in caught.value.detail
    assert real.undo().outcome is Outcome.ALREADY


@needs_rights
def test_real_range_of_ports(real, kept):
    path = f"{NET}/ip_local_port_range"
    kept(path)
    first, last = value(OPS, path).split()

    real.apply({"net.ipv4.ip_local_port_range": f"{first} {int(last) - 1}"})
    assert value(OPS, path).split() == [first, str(int(last) - 1)]

    assert real.undo().outcome is Outcome.RESTORED
    assert value(OPS, path).split() == [first, last]


@needs_rights
def test_real_congestion_control_with_those_that_are_allowed(real, kept):
    control, allowed = f"{NET}/tcp_congestion_control", f"{NET}/tcp_allowed_congestion_control"
    kept(control, allowed)
    others = set(value(OPS, f"{NET}/tcp_available_congestion_control").split()) - set(value(OPS, allowed).split())
    if not others:
        pytest.skip("this kernel allows all congestion controls that it has")
    before = value(OPS, control), value(OPS, allowed)

    real.apply({"net.ipv4.tcp_congestion_control": sorted(others)[0]})
    assert sorted(others)[0] in value(OPS, allowed).split()

    assert real.undo().outcome is Outcome.RESTORED
    assert (value(OPS, control), value(OPS, allowed)) == before


@needs_rights
def test_real_watchdogs(real, kept):
    paths = [f"/proc/sys/kernel/{name}" for name in ("watchdog", "nmi_watchdog", "soft_watchdog")]
    if not all(map(OPS.exists, paths)):
        pytest.skip("this kernel has no watchdogs for lockups")
    kept(*paths)
    before = [value(OPS, path) for path in paths]
    if before[0] == "0":
        pytest.skip("the watchdogs of this machine are off")

    real.apply({"kernel.watchdog": "0"})
    assert [value(OPS, path) for path in paths] == ["0", "0", "0"]

    assert real.undo().outcome is Outcome.RESTORED
    assert [value(OPS, path) for path in paths] == before


pair_states = st.one_of(
    st.tuples(st.integers(0, 100), st.just(0)), st.tuples(st.just(0), st.integers(8192, 99999))
).map(lambda values: (str(values[0]), str(values[1])))
pair_wishes = st.one_of(
    st.builds(lambda value: {"vm.dirty_ratio": str(value)}, st.integers(0, 100)),
    st.builds(lambda value: {"vm.dirty_bytes": str(value)}, st.integers(8192, 99999)),
)


@settings(max_examples=150)
@given(old=pair_states, wanted=pair_wishes, applying=MOMENTS, undoing=KILLS)
def test_pair_is_as_before_wherever_pgtrial_was_killed(
    *, make_tree: Callable, bench: Callable, add_pair: Callable, old, wanted, applying, undoing
):
    tree = make_tree()
    add_pair(tree, RATIO, BYTES, values=old)

    run_killed(bench(Sysctl(), tree), wanted, applying, undoing)

    assert tuple(tree.read(path).strip() for path in (RATIO, BYTES)) == old
