from collections.abc import Callable

import pytest

from pgtrial.errors import SpecProblem
from pgtrial.experiment_file.arms import find_fault

Find = Callable[[str], dict[str, SpecProblem]]


def factor(knob: str, setting: str, levels: str) -> str:
    return f"[factors.f]\nknob = '{knob}'\nsetting = '{setting}'\nlevels = {levels}\n"


@pytest.mark.parametrize(
    ("knob", "setting", "levels"),
    [
        ("postgresql", "work_mem", "['1MB', '2MB']"),
        ("sysctl", "vm.swappiness", "[1, 60]"),
        ("huge_pages", "size", "['none', '2MB']"),
        ("server", "postgres", "['16', 18]"),
        ("cgroup", "cpus", "[1, 2.5]"),
        ("block_device", "read_ahead_kb", "[128, 4096]"),
        ("memory_pressure", "share", "['10%', 0.5]"),
        ("extensions", "preload", "['auto_explain, pg_prewarm', 'auto_explain', '']"),
        ("sql", "apply", "['', 'CREATE INDEX ON a (b)']"),
        ("filesystem", "options", "['', 'noatime', 'relatime']"),
    ],
)
def test_a_factor_varies_a_value_of_any_table(find: Find, knob: str, setting: str, levels: str) -> None:
    assert find(factor(knob, setting, levels)) == {}


def test_the_name_of_a_factor_is_its_setting_if_none_is_given(find: Find) -> None:
    assert find("[factors.size]\nknob = 'huge_pages'\nlevels = ['none', '1GB']\n") == {}
    assert (
        'has no setting "f"'
        in find("[factors.f]\nknob = 'huge_pages'\nlevels = ['none', '1GB']\n")["factors.f"].message
    )


@pytest.mark.parametrize(
    ("text", "path", "message", "hint"),
    [
        (factor("sysclt", "vm.swappiness", "[1, 2]"), "knob", 'knob "sysclt" does not exist', 'you meant "sysctl"'),
        (
            factor("cgroup", "memroy", "[1, 2]"),
            "setting",
            'knob "cgroup" has no setting "memroy"',
            'you meant "memory"',
        ),
        (factor("huge_pages", "siz", "[1, 2]"), "setting", 'no setting "siz"', "It has: size."),
        (factor("sql", "undo", "['a', 'b']"), "setting", '"undo" of knob "sql" cannot be a factor', "[arms.NAME.sql]"),
        (factor("huge_pages", "size", "['none', '4MB']"), "levels[1]", 'value for "size": "4MB"', "none, 2MB, 1GB"),
        (factor("cgroup", "memory", "['1GB', 2]"), "levels[1]", 'a size such as "4GB"', ""),
        (factor("cgroup", "cpus", "[0, 2]"), "levels[0]", '"cpus": it must be greater than 0', ""),
        (
            factor("block_device", "read_ahead_kb", "['128', 4096]"),
            "levels[0]",
            "a whole number",
            "without quotation marks",
        ),
        (
            factor("extensions", "preload", "['a', 'b c']"),
            "levels[1]",
            '"b c" is not a name',
            "beginning with a letter",
        ),
        (factor("storage", "data", "['/', 'x']"), "levels[1]", '"x" is not an absolute path', ""),
        (factor("sysctl", "vm.swappiness", "[2, '']"), "levels[1]", '"vm.swappiness": it is empty', ""),
        (factor("server", "postgres", "['16', '18.1']"), "levels[1]", '"18.1" is not a major version', '"18"'),
    ],
)
def test_a_factor_is_refused_where_an_arm_would_be(find: Find, text: str, path: str, message: str, hint: str) -> None:
    problems = find(text)

    assert list(problems) == [f"factors.f.{path}"]
    assert message in problems[f"factors.f.{path}"].message
    assert hint in problems[f"factors.f.{path}"].hint


def test_a_wrong_level_is_worded_as_in_an_arm(find: Find) -> None:
    in_factor = find(factor("transparent_huge_pages", "enabled", "['always', 'nevr']"))["factors.f.levels[1]"]
    in_arm = find("[arms.a]\n[arms.b.transparent_huge_pages]\nenabled = 'nevr'\n")[
        "arms.b.transparent_huge_pages.enabled"
    ]

    assert (in_factor.message, in_factor.hint) == (in_arm.message, in_arm.hint)


def test_one_setting_of_one_knob_is_varied_once(find: Find) -> None:
    twice = factor("cgroup", "cpus", "[1, 2]") + "[factors.cpus]\nknob = 'cgroup'\nlevels = [3, 4]\n"
    of_two_knobs = (
        "[factors.a]\nknob = 'block_device'\nsetting = 'device'\nlevels = ['sda', 'sdb']\n"
        "[target.block_device]\nread_ahead_kb = 8\n[factors.device]\nlevels = [1, 2]\n"
    )

    assert find(twice)["factors.cpus"].message == 'factors "f" and "cpus" both vary "cpus"'
    assert find(of_two_knobs) == {}


def test_a_setting_of_the_kernel_is_not_taken_for_one_of_an_extension(find: Find) -> None:
    text = "[factors.'vm.swappiness']\nlevels = [1, 60]\n[target.postgresql]\n'kernel.x' = 1\n'auto_explain.x' = 1\n"
    problems = find(text)

    assert set(problems) == {'factors."vm.swappiness"', 'target.postgresql."kernel.x"'}
    assert 'knob = "sysctl"' in problems['factors."vm.swappiness"'].hint
    assert "[target.sysctl]" in problems['target.postgresql."kernel.x"'].hint


def test_a_fault_is_found_in_a_value_of_any_kind() -> None:
    assert find_fault("cgroup", "cpus", 2) is None
    assert find_fault("extensions", "create", "a, b") is None
    assert find_fault("extensions", "create", ["a", "b"]) is None
    assert find_fault("extensions", "create", "a,b") is not None
    assert find_fault("cgroup", "no_such_key", 2) is not None


def test_a_setting_of_a_knob_is_none_of_postgresql(find: Find) -> None:
    """PostgreSQL takes any name with a dot, and all arms would be the same."""
    problems = find(
        '[factors."pgbouncer.pool_size"]\nlevels = [20, 40]\n'
        '[factors.batch]\nsetting = "workload.variables"\nlevels = [1, 2]\n'
        '[target.postgresql]\n"pgbouncer.pool_size" = 5\n"workload.tenant" = "a"\n'
    )

    assert set(problems) == {
        'factors."pgbouncer.pool_size"',
        "factors.batch.setting",
        'target.postgresql."pgbouncer.pool_size"',
    }
    assert 'knob = "pgbouncer" and setting = "pool_size"' in problems['factors."pgbouncer.pool_size"'].hint
    assert problems['target.postgresql."pgbouncer.pool_size"'].hint == "It belongs in [target.pgbouncer]."
