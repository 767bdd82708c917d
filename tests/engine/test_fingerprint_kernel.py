import pytest

from pgtrial.engine.fingerprint.kernel import SYSCTLS, kernel_facts
from pgtrial.knobs.sysctl import path_of, standard_name

PAGES = "/sys/kernel/mm/transparent_hugepage"


def facts(texts: dict[str, str], *sysctls: str) -> dict[str, str]:
    return kernel_facts(texts, sysctls=sysctls)


def test_choice_in_brackets_is_the_one_in_force():
    assert facts({f"{PAGES}/enabled": "always [madvise] never\n", f"{PAGES}/khugepaged/defrag": "1\n"}) == {
        "kernel/transparent_hugepage.enabled": "madvise",
        "kernel/transparent_hugepage.khugepaged.defrag": "1",
    }


def test_sizes_of_huge_pages_are_one_fact():
    texts = {
        f"{PAGES}/hugepages-64kB/enabled": "always inherit madvise [never]\n",
        f"{PAGES}/hugepages-2048kB/enabled": "always [inherit] madvise never\n",
        f"{PAGES}/hugepages-64kB/shmem_enabled": "always inherit within_size advise [never]\n",
    }

    assert facts(texts) == {
        "kernel/transparent_hugepage.enabled by size": "2048kB inherit",
        "kernel/transparent_hugepage.shmem_enabled by size": "never",
    }


def test_pools_of_huge_pages_have_their_size():
    assert facts({"/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "4\n"}) == {
        "kernel/huge pages of 1048576kB": "4"
    }


def test_kernel_settings_have_their_name():
    texts = {"/proc/sys/vm/lowmem_reserve_ratio": "256\t256\t32\n", "/proc/sys/net/ipv4/conf/eth0.1/rp_filter": "2\n"}

    assert facts(texts, "vm.lowmem_reserve_ratio", "net.ipv4.conf.eth0/1.rp_filter", "vm.gone") == {
        "kernel/vm.lowmem_reserve_ratio": "256 256 32",
        "kernel/net.ipv4.conf.eth0/1.rp_filter": "2",
    }


@pytest.mark.parametrize(
    ("written", "name", "path"),
    [
        ("vm.swappiness", "vm.swappiness", "/proc/sys/vm/swappiness"),
        ("vm/swappiness", "vm.swappiness", "/proc/sys/vm/swappiness"),
        (
            "net.ipv4.conf.eth0/1.rp_filter",
            "net.ipv4.conf.eth0/1.rp_filter",
            "/proc/sys/net/ipv4/conf/eth0.1/rp_filter",
        ),
        (
            "net/ipv4/conf/eth0.1/rp_filter",
            "net.ipv4.conf.eth0/1.rp_filter",
            "/proc/sys/net/ipv4/conf/eth0.1/rp_filter",
        ),
    ],
)
def test_names_are_as_sysctl_understands_them(written, name, path):
    assert standard_name(written) == name
    assert path_of(name) == path


def test_what_does_something_when_it_is_read_is_not_read():
    assert not {"vm.stat_refresh", "vm.drop_caches", "vm.compact_memory"} & set(SYSCTLS)


def test_passwords_on_the_command_line_stay_there():
    text = "BOOT_IMAGE=/vmlinuz root=/dev/sda1 mitigations=off rd.iscsi.password=secret isolcpus=2,3 nosmt quiet\n"

    assert facts({"/proc/cmdline": text}) == {"kernel/boot parameters": "mitigations=off isolcpus=2,3 nosmt"}


def test_weaknesses_are_told_by_state():
    texts = {
        f"/sys/devices/system/cpu/vulnerabilities/{name}": text
        for name, text in (
            ("l1tf", "Not affected\n"),
            ("mds", "Vulnerable: Clear CPU buffers attempted, no microcode\n"),
            ("meltdown", "Mitigation: PTI\n"),
            ("spectre_v2", "Mitigation: Retpolines; STIBP: disabled\n"),
        )
    }

    assert facts(texts) == {"kernel/CPU weaknesses": "vulnerable: mds; mitigation: meltdown, spectre_v2"}


def test_the_operating_system_has_its_full_name():
    text = 'NAME="Debian GNU/Linux"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'

    assert facts({"/etc/os-release": text}) == {"system/operating system": "Debian GNU/Linux 12 (bookworm)"}


def test_the_schedulers_preemption_is_in_parentheses():
    texts = {
        "/sys/kernel/debug/sched/preempt": "none voluntary (full) lazy\n",
        "/sys/kernel/debug/sched/base_slice_ns": "2800000\n",
    }

    assert facts(texts) == {"kernel/sched.preempt": "full", "kernel/sched.base_slice_ns": "2800000"}
