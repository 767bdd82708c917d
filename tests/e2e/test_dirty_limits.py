"""Limits of dirty pages of the arms, on a machine of whose memory something is taken away."""

import json
import os
from pathlib import Path

import pytest

MACHINE = Path("/proc/sys/vm/dirty_ratio")

pytestmark = [
    pytest.mark.changes_kernel,
    pytest.mark.skipif(os.geteuid() != 0, reason="changing kernel settings needs root"),
]


@pytest.mark.parametrize("design", ["", '\nmethod = "switchback"\nslice = "10s"'], ids=["blocks", "switchback"])
def test_arms_have_their_own_and_the_machine_has_its_own_back(place, design: str) -> None:
    before, (first, second) = MACHINE.read_text(), (37, 38)
    place.write_light_experiment(
        *((('duration = "2s"', 'duration = "20s"'),) if design else ()),
        ("blocks = 2", f"blocks = 1{design}"),
        ("[design]", '[target.memory_pressure]\nsize = "16MB"\n\n[design]'),
        ("[design]", f'[arms.on.sysctl]\n"vm.dirty_ratio" = {first}\n\n[design]'),
        ("[design]", f'[arms.off.sysctl]\n"vm.dirty_ratio" = {second}\n\n[design]'),
    )

    result = place.run("run", "--allow-host-changes", "small.toml")

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    changed = folder.query("SELECT DISTINCT new_value FROM setting_change WHERE name LIKE 'vm.dirty_ratio%'")
    assert {value.partition(",")[0] for (value,) in changed} == {str(first), str(second)}
    undone = [json.loads(data)["outcome"] for (data,) in folder.query("SELECT data FROM event WHERE kind = 'restored'")]
    assert {"restored"} <= set(undone) <= {"restored", "already as before"}
    assert MACHINE.read_text() == before
    folder.assert_nothing_left()
