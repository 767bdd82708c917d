import pytest

from pgtrial.engine.fingerprint.machine import queue_facts, read_storage
from pgtrial.model.fingerprint import FREE, SIZE, WAL_FREE, WAL_SIZE

MOUNTS = """\
27 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw,discard
40 27 253:0 / /wal rw,noatime - xfs /dev/mapper/vg-wal rw,attr2,noquota
50 27 0:44 / /mnt/my\\040share rw - nfs4 server:/export rw,vers=4.2
"""
NUMBERS = {"/": 27, "/wal": 40, "/mnt/my share": 50}


@pytest.fixture
def disks(tree, monkeypatch):
    """A partition of sda under "/", and a logical volume on sdb and sdc under "/wal"."""
    tree.add({"/proc/self/mountinfo": MOUNTS, "/sys/devices/sda/sda1/partition": "1\n"})
    for name, scheduler in (
        ("sda", "none [mq-deadline]"),
        ("sdb", "[none] mq-deadline"),
        ("sdc", "[none] mq-deadline"),
    ):
        tree.add(
            {
                f"/sys/devices/{name}/queue/scheduler": f"{scheduler}\n",
                f"/sys/devices/{name}/queue/nr_requests": "64\n" if name == "sdc" else "256\n",
                f"/sys/devices/{name}/queue/read_ahead_kb": "128\n",
                f"/sys/devices/{name}/queue/write_cache": "write back\n",
                f"/sys/devices/{name}/device/model": "QEMU HARDDISK   \n",
            }
        )
        tree.link(f"/sys/block/{name}", f"/sys/devices/{name}")
    tree.add({"/sys/devices/dm-0/queue/read_ahead_kb": "4096\n", "/sys/devices/dm-0/queue/scheduler": "none\n"})
    tree.link("/sys/block/dm-0", "/sys/devices/dm-0")
    tree.link("/sys/devices/dm-0/slaves/sdb", "/sys/devices/sdb")
    tree.link("/sys/devices/dm-0/slaves/sdc", "/sys/devices/sdc")
    tree.link("/sys/dev/block/8:1", "/sys/devices/sda/sda1")
    tree.link("/sys/dev/block/253:0", "/sys/devices/dm-0")
    for place in ("/var/tmp", "/wal", "/mnt/my share"):
        tree.at(place).mkdir(parents=True)
    tree.numbers = {"/": (8, 1), "/wal": (253, 0), "/mnt/my share": (0, 44)}
    monkeypatch.setattr(
        type(tree),
        "mount_id",
        lambda _, path: NUMBERS[max((p for p in NUMBERS if path.startswith(p)), key=len)],
        raising=False,
    )
    monkeypatch.setattr(type(tree), "space", lambda _, path: (1000, 400 if path.startswith("/wal") else 300))
    return tree


def test_a_disk_is_told_with_its_mount_and_its_queue(disks):
    assert read_storage(disks, ["/var/tmp/new/data"]) == {
        "storage/data directory": "/var/tmp/new/data",
        "storage/data mount point": "/",
        "storage/data source": "/dev/sda1",
        "storage/data file system": "ext4",
        "storage/data mount options": "rw,relatime,discard",
        "storage/data device": "sda",
        "storage/data device model": "QEMU HARDDISK",
        "storage/data read_ahead_kb": "128",
        "storage/data queue scheduler": "mq-deadline",
        "storage/data queue nr_requests": "256",
        "storage/data queue write_cache": "write back",
        SIZE: "1000",
        FREE: "300",
    }


def test_read_ahead_is_that_of_the_volume_and_the_queue_that_of_its_disks(disks):
    facts = read_storage(disks, ["/var/tmp", "/wal"])

    assert facts["storage/WAL device"] == "sdb, sdc"
    assert facts["storage/WAL read_ahead_kb"] == "4096"
    assert facts["storage/WAL queue scheduler"] == "none"
    assert facts["storage/WAL queue nr_requests"] == "256 × 1, 64 × 1"
    assert facts["storage/WAL mount options"] == "rw,noatime,attr2,noquota"
    assert (facts[WAL_SIZE], facts[WAL_FREE]) == ("1000", "400")


def test_the_wal_on_the_file_system_of_the_data_has_no_facts_of_its_own(disks):
    facts = read_storage(disks, ["/var/tmp/data", "/var/tmp/data/pg_wal"])

    assert {name: value for name, value in facts.items() if "WAL" in name} == {
        "storage/WAL file system": "that of the data"
    }


def test_a_network_file_system_has_no_device(disks):
    facts = read_storage(disks, ["/mnt/my share"])

    assert facts["storage/data source"] == "server:/export"
    assert facts["storage/data mount point"] == "/mnt/my share"
    assert not any("device" in name or "queue" in name for name in facts)


def test_a_mount_that_cannot_be_seen_has_no_facts(disks, monkeypatch):
    monkeypatch.setattr(type(disks), "mount_id", lambda _, __: 999)

    assert read_storage(disks, ["/var/tmp"]) == {}


def test_where_nothing_is_known_of_the_server_nothing_is_read(tree):
    assert read_storage(tree, []) == {}


def test_what_is_not_there_is_left_out():
    assert queue_facts({"scheduler": ["/a", "/b"], "gone": ["/c"]}, {"/a": "[none]\n", "/b": "none\n"}) == {
        "scheduler": "none"
    }
