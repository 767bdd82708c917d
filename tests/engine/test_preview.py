"""What an experiment would change on a host, and what cannot be changed there."""

import asyncio

from pgtrial.engine.preview import preview_changes
from pgtrial.hosts.local import LocalHost
from pgtrial.model.arm import Arm, Role


def test_a_control_group_that_cannot_be_is_no_fault_of_another_knob(tree) -> None:
    tree.add({"/proc/self/mountinfo": "", "/proc/self/cgroup": "0::/\n", "/proc/sys/vm/overcommit_memory": "0\n"})
    knobs = {"sysctl": {"vm.overcommit_memory": "1"}, "cgroup": {"memory": "1GB"}}

    found = asyncio.run(preview_changes([Arm(name="small", role=Role.CANDIDATE, knobs=knobs)], LocalHost(ops=tree)))

    assert [(each.knob, each.change.name) for each in found if each.change] == [("sysctl", "vm.overcommit_memory")]
    ((knob, problem),) = ((each.knob, each.problem) for each in found if each.problem)
    assert knob == "cgroup"
    assert problem.startswith("cannot limit memory: no mounted control group")
