"""vm.swappiness where control groups have a swappiness of their own: it governs the server, and is put back."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.hosts.linux.control_groups import hierarchies
from pgtrial.hosts.operations import MARK, Operations
from support import wait_until

MACHINE = Path("/proc/sys/vm/swappiness")
VALUES = ("37", "38")
MEMORY = next((Path(h.mount) for h in hierarchies(Operations()) if h.version == 1 and "memory" in h.controllers), None)

pytestmark = [
    pytest.mark.changes_kernel,
    pytest.mark.skipif(os.geteuid() != 0, reason="changing kernel settings needs root"),
    pytest.mark.skipif(MEMORY is None, reason="groups of version 2 have no swappiness of their own"),
]


@pytest.fixture
def before() -> Iterator[str]:
    """The machine's value, which is written back where a test has not."""
    text = MACHINE.read_text()
    yield text
    if MACHINE.read_text() != text:
        MACHINE.write_text(text)


def write(place) -> None:
    """One server that is switched back and forth between two values."""
    first, second = VALUES
    place.write_light_experiment(
        ('duration = "2s"', 'duration = "20s"'),
        ("blocks = 2", 'blocks = 1\nmethod = "switchback"\nslice = "10s"'),
        ("[design]", f'[arms.on.sysctl]\n"vm.swappiness" = {first}\n\n[design]'),
        ("[design]", f'[arms.off.sysctl]\n"vm.swappiness" = {second}\n\n[design]'),
    )


def find_group(folder) -> Path | None:
    """The group of memory in which the server of an experiment is."""
    mark = f"{MARK}={folder.path.resolve()}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment, groups = (process / "environ").read_bytes(), (process / "cgroup").read_text()
        except OSError:
            continue
        if mark in environment.split(b"\0"):
            for line in groups.splitlines():
                _, controllers, path = line.split(":", 2)
                if "memory" in controllers.split(",") and "/pgtrial-" in path:
                    return Path(f"{MEMORY}{path}")
    return None


def test_it_is_that_of_the_servers_group_in_each_turn(place, before: str) -> None:
    write(place)

    result = place.run("run", "--allow-host-changes", "small.toml")

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    findings = json.loads((folder.path / "findings.json").read_text())
    (metric,) = [one for one in findings["metrics"] if one["metric"] == "cgroup.swappiness"]
    seen = {arm["arm"]: arm["mean"] for arm in metric["arms"]}
    assert seen == {"on": 37, "off": 38}
    changes = folder.query(
        "SELECT DISTINCT new_value FROM setting_change WHERE name LIKE 'memory.swappiness of %' ORDER BY new_value"
    )
    assert [value for (value,) in changes] == list(VALUES)
    assert MACHINE.read_text() == before
    folder.assert_nothing_left()


@pytest.mark.parametrize("last", VALUES)
def test_killed_in_the_midst_of_switching_the_group_goes_and_the_value_of_before_comes_back(
    place, ended, before: str, last: str
) -> None:
    write(place)
    process = place.start("run", "--allow-host-changes", "small.toml")
    ended.append(process)
    found = place.wait_until(lambda folder: folder.is_measured())
    group = find_group(found)
    assert group is not None
    wait_until(lambda: (group / "memory.swappiness").read_text().strip() == last == MACHINE.read_text().strip())
    process.kill()
    process.communicate()
    wait_until(lambda: not found.commands())
    assert (group / "memory.swappiness").read_text().strip() == last

    result = place.run("restore")

    assert result.returncode == 0, result.stderr
    assert "changed by somebody else" not in result.stdout + result.stderr
    assert not group.exists()
    assert MACHINE.read_text() == before
    assert place.run("restore").returncode == 0
    assert MACHINE.read_text() == before
