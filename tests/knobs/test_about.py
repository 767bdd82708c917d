"""What docs/knobs.md says of each knob is true."""

import asyncio
import os
import resource
import sys
from pathlib import Path

import pytest

from pgtrial.errors import SettingError
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations
from pgtrial.knobs import HOST_KNOBS, KNOBS
from pgtrial.knobs.base import KnobContext
from pgtrial.knobs.kernel_values import read_choices, read_chosen
from pgtrial.model.change import Outcome
from pgtrial.postgres.existing.knobs import restoring_knobs

OPS = Operations()
WATERMARK = "/proc/sys/vm/watermark_scale_factor"
DEFRAG = "/sys/kernel/mm/transparent_hugepage/defrag"

# A table that changes something here; each knob of the host has one here or in FILES.
WANTED = {
    "huge_pages": {"size": "2MB"},
    "cgroup": {"memory": "1GB"},
    "filesystem": {"options": "noatime"},
    "memory_pressure": {"size": "64MB"},
    "tracing": {"throttling": "required"},
}


def other_watermark() -> tuple[str, dict[str, str]]:
    return WATERMARK, {"vm.watermark_scale_factor": str(int(OPS.read(WATERMARK)) + 1)}


def other_defrag() -> tuple[str, dict[str, str]]:
    if not OPS.exists(DEFRAG):
        pytest.skip("no transparent huge pages in this kernel")
    return DEFRAG, {"defrag": next(word for word in read_choices(OPS, DEFRAG) if word != read_chosen(OPS, DEFRAG))}


def other_read_ahead() -> tuple[str, dict[str, str]]:
    for path in OPS.glob("/sys/block/*/queue/read_ahead_kb"):
        device = path.split("/")[3]
        if device.startswith(("loop", "zram", "ram")) and OPS.read(f"/sys/block/{device}/size").strip() == "0":
            return path, {"read_ahead_kb": str(int(OPS.read(path)) + 64), "device": device}
    pytest.skip("no loop device that is not in use")


# Where it takes the kernel's value to know what to ask for: the file that has it, and a table that makes it another
# one at once. A test is skipped where the machine has no such file.
FILES = {"sysctl": other_watermark, "block_device": other_read_ahead, "transparent_huge_pages": other_defrag}


def test_every_knob_of_the_host_has_a_table_here():
    assert sorted([*WANTED, *FILES]) == sorted(knob.name for knob in HOST_KNOBS)


@pytest.mark.parametrize("knob", KNOBS.values(), ids=KNOBS)
def test_knob_has_a_file_of_its_name(knob):
    assert Path(sys.modules[type(knob).__module__].__file__).stem == knob.name


@pytest.mark.parametrize(
    "about", [knob.about for knob in (*KNOBS.values(), *restoring_knobs({}))], ids=lambda about: about.sets[:20]
)
def test_every_word_about_a_knob_is_there_and_ends_without_a_period(about):
    texts = [getattr(about, name) for name in ("sets", "takes_effect", "rights", "verified", "undone")]

    assert all(text and not text.endswith(".") for text in texts)


@pytest.mark.parametrize("name", FILES)
def test_effect_at_once_is_read_back_at_once_and_undone(name, bench, kept):
    knob, (path, wanted) = KNOBS[name], FILES[name]()
    if not OPS.is_writable(path):
        pytest.skip("values of the kernel can only be changed by root, and not in a container")
    kept(path, brackets="[" in OPS.read(path))
    old = read_chosen(OPS, path)
    table = bench(knob, OPS)

    assert knob.about.takes_effect.startswith("at once")
    (entry,) = table.apply(wanted)
    assert entry.got[path] == read_chosen(OPS, path) == next(iter(wanted.values()))
    assert table.undo().outcome is Outcome.RESTORED
    assert read_chosen(OPS, path) == old


@pytest.mark.parametrize("name", [*FILES, *WANTED])
def test_rights_of_root_are_needed_and_wanted_for(name, forked):
    knob, wanted = KNOBS[name], WANTED.get(name)
    if wanted is None:
        path, wanted = FILES[name]()
        if os.geteuid() != 0 and OPS.is_writable(path):
            pytest.skip("this user may change the kernel's values without being root")

    def plan_as_nobody() -> None:
        """As an unprivileged user, after all that root alone may read of the installation has been read."""
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        context = KnobContext(host=LocalHost(), token="token", directory="/tmp")
        try:
            asyncio.run(knob.plan(context, wanted))
        except SettingError as err:
            print(err.message, err.hint)

    with forked(plan_as_nobody) as process:
        said = process.printed.read()
        assert process.wait() == 0

    assert knob.about.rights.startswith("root")
    assert "root" in said
