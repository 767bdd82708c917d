"""What can be wrong with disk classes, with arms on them, and with the size of the data as a factor."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pgtrial.errors import SpecProblem

Find = Callable[..., dict[str, SpecProblem]]
ARMS = "[arms.a]\n[arms.b]\n"
SLOW = "[disks.slow]\nsize = '2GB'\nread_iops = 3000\nwrite_iops = 1500\n"
FAST = "[disks.fast]\ndata = '/mnt/fast'\n"
FACTOR = "[factors.disk]\nknob = 'storage'\nlevels = ['slow', 'fast']\n"


@pytest.mark.parametrize(
    "text",
    [
        SLOW + FAST + FACTOR,
        SLOW + FAST + FACTOR + "[target.cgroup]\nmemory = '256MB'\ncpus = 1.5\n",
        SLOW + FAST + FACTOR.replace("[factors.disk]", "[factors.class]\nsetting = 'disk'"),
        SLOW + ARMS + "[arms.b.storage]\ndisk = 'slow'\n",
        SLOW + ARMS + "[target.storage]\ndisk = 'slow'\n[arms.b.cgroup]\nmemory = '1GB'\n",
        FAST + ARMS + "[arms.b.storage]\ndisk = 'fast'\n[arms.b.filesystem]\noptions = 'noatime'\n",
        FAST + ARMS + "[arms.b.storage]\ndisk = 'fast'\n[arms.b.cgroup]\nread_iops = 100\n",
        "[disks.x]\ndata = '/mnt/x'\nread_bytes = '100MB'\nwal = '/mnt/wal'\n" + ARMS,
        "[disks.x]\nsize = '1GB'\ntype = 'xfs'\noptions = 'noatime'\n" + ARMS,
        "[factors.data]\nknob = 'storage'\nlevels = ['/mnt/a', '/mnt/b']\n",
        "[factors.scale]\nknob = 'dataset'\nlevels = [1, 10]\n",
        ARMS + "[dataset]\nscale = 5\n[arms.b.dataset]\nscale = 50\n",
        ARMS + "[target.dataset]\nscale = 5\n",
    ],
)
def test_what_goes_together_is_not_refused(find: Find, text: str) -> None:
    assert find(text) == {}


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("[disks.x]\nread_iops = 100\n" + ARMS, "disks.x", 'disk class "x" has limits, but neither a directory nor'),
        ("[disks.x]\n" + ARMS, "disks.x", 'disk class "x" has neither a directory nor a size'),
        ("[disks.x]\ndata = '/x'\ntype = 'xfs'\n" + ARMS, "disks.x.type", '"type" has no meaning for disk class "x"'),
        ("[disks.'a b']\ndata = '/x'\n" + ARMS, 'disks."a b"', 'invalid name of a disk class: "a b"'),
        (FAST + ARMS + "[arms.b.storage]\ndisk = 'fats'\n", "arms.b.storage.disk", 'disk class "fats" does not exist'),
        (SLOW + FACTOR, "factors.disk.levels[1]", 'disk class "fast" does not exist'),
        (
            SLOW + ARMS + "[arms.b.storage]\ndisk = 'slow'\nwal = '/wal'\n",
            "arms.b.storage.disk",
            'disk class "slow" and "wal" of knob "storage" exclude each other',
        ),
        (
            SLOW + ARMS + "[target.filesystem]\noptions = 'noatime'\n[arms.b.storage]\ndisk = 'slow'\n",
            "arms.b.storage.disk",
            'disk class "slow" and "options" of knob "filesystem" exclude each other',
        ),
        (
            SLOW + ARMS + "[target.storage]\ndisk = 'slow'\n[arms.b.cgroup]\nread_bytes = '1MB'\n",
            "arms.b.cgroup.read_bytes",
            'disk class "slow" and "read_bytes" of knob "cgroup" exclude each other',
        ),
        (
            ARMS + "[dataset]\nkind = 'sql'\nsetup = 'x.sql'\n[arms.b.dataset]\nscale = 5\n",
            "arms.b.dataset",
            'knob "dataset" has no meaning with kind = "sql"',
        ),
        (
            ARMS + "[target]\nkind = 'server'\n[arms.b.dataset]\nscale = 5\n",
            "arms.b.dataset",
            'knob "dataset" cannot be set on an existing server',
        ),
    ],
)
def test_contradictions_are_named_where_they_stand(find: Find, text: str, path: str, message: str) -> None:
    found = find(text)

    assert message in found[path].message
    assert found[path].hint


def test_nearest_class_is_named_in_the_hint(find: Find) -> None:
    found = find(FAST + ARMS + "[arms.b.storage]\ndisk = 'fats'\n")

    assert found["arms.b.storage.disk"].hint.startswith('Perhaps you meant "fast".')


def test_places_of_a_class_have_to_be_there(find: Find, tmp_path: Path) -> None:
    text = f"[disks.x]\ndata = '{tmp_path}'\nwal = '{tmp_path}/none'\n"

    assert list(find(text + ARMS, tmp_path)) == ["disks.x.wal"]
    assert find(text + ARMS + "[target]\nhost = 'ssh://far'\n", tmp_path) == {}


def test_keys_of_a_class_are_those_of_the_format(find: Find) -> None:
    found = find("[disks.x]\ndata = '/x'\niops = 3\n" + ARMS)

    assert "read_iops" in found["disks.x.iops"].hint
