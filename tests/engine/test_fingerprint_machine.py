import pytest

from pgtrial.engine.fingerprint.machine import machine_facts

X86 = """\
processor	: 0
vendor_id	: GenuineIntel
model name	: Intel(R) Xeon(R) CPU
microcode	: 0x5003605
flags		: fpu sse4_2 popcnt avx2 constant_tsc nonstop_tsc syscall
power management:

processor	: 1
model name	: another
"""
ARM = """\
processor	: 0
BogoMIPS	: 243.75
Features	: fp asimd evtstrm aes pmull crc32 atomics
CPU implementer	: 0x41
CPU part	: 0xd0c

processor	: 1
"""
CPU = "/sys/devices/system/cpu"


def facts(texts: dict[str, str], cpuinfo: str = "") -> dict[str, str]:
    return machine_facts(texts, cpuinfo=cpuinfo)


def test_the_first_cpu_stands_for_all():
    assert facts({}, X86) == {
        "machine/CPU": "Intel(R) Xeon(R) CPU",
        "machine/CPU microcode": "0x5003605",
        "machine/CPU features": "avx2 constant_tsc nonstop_tsc popcnt sse4_2",
    }


def test_arm_has_numbers_instead_of_a_name():
    assert facts({}, ARM) == {
        "machine/CPU": "implementer 0x41, part 0xd0c",
        "machine/CPU features": "aes asimd atomics crc32 pmull",
    }


def test_a_machine_that_tells_nothing_has_no_facts():
    assert facts({}) == {}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (["performance", "performance"], "performance"),
        (["powersave", "performance", "performance"], "performance × 2, powersave × 1"),
    ],
)
def test_a_value_of_many_cpus_is_told_once(values, told):
    texts = {f"{CPU}/cpufreq/policy{n}/scaling_governor": f"{value}\n" for n, value in enumerate(values)}

    assert facts(texts) == {"machine/CPU governor": told}


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("intel_pstate/no_turbo", "1\n", "off"),
        ("intel_pstate/no_turbo", "0\n", "on"),
        ("cpufreq/boost", "1\n", "on"),
        ("cpufreq/boost", "0\n", "off"),
    ],
)
def test_turbo_is_told_whatever_the_driver(file, text, told):
    assert facts({f"{CPU}/{file}": text}) == {"machine/CPU turbo": told}


def test_memory_is_told_in_three_digits():
    texts = {"/proc/meminfo": "MemTotal:       16384256 kB\nMemFree: 5 kB\nSwapTotal:             0 kB\n"}

    assert facts(texts) == {"machine/memory": "15.6 GB", "machine/swap": "0 B"}


@pytest.mark.parametrize(
    ("supplies", "told"),
    [
        ({"AC": {"type": "Mains", "online": "1"}, "BAT0": {"type": "Battery", "status": "Charging"}}, "mains"),
        ({"AC": {"type": "Mains", "online": "0"}, "BAT0": {"type": "Battery", "status": "Discharging"}}, "battery"),
        ({"BAT0": {"type": "Battery", "status": "Discharging"}}, "battery"),
        ({"BAT0": {"type": "Battery", "status": "Full"}}, None),
        ({"hid": {"type": "USB", "online": "0"}}, None),
    ],
)
def test_power_is_from_the_mains_or_a_battery(supplies, told):
    texts = {
        f"/sys/class/power_supply/{supply}/{name}": f"{value}\n"
        for supply, values in supplies.items()
        for name, value in values.items()
    }

    assert facts(texts).get("machine/power") == told


def test_the_instance_type_of_a_cloud_is_the_model():
    texts = {"/sys/class/dmi/id/sys_vendor": "Amazon EC2\n", "/sys/class/dmi/id/product_name": "m5.large\n"}

    assert facts(texts) == {"machine/model": "Amazon EC2 m5.large"}


def test_single_files_are_facts():
    texts = {f"{CPU}/online": "0-7\n", f"{CPU}/isolated": "\n", f"{CPU}/smt/control": "on\n"}

    assert facts(texts) == {"machine/CPUs online": "0-7", "machine/SMT": "on"}
