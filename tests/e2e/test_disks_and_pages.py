"""Disk classes, sizes of the data and the pages of memory in one experiment, from the file to the findings."""

import json
import mmap

TEXT = """
format = 1
experiment = { name = "places" }
hypothesis = { expect = "not-worse", margin = "40%" }
[target.huge_pages]
size = "none"
[disks.first]
data      = "DIRECTORY/first"
read_iops = 1000000
[disks.second]
data = "DIRECTORY/second"
[workload]
mix      = "oltp"
clients  = 3
rate     = 60
duration = "2s"
warmup   = 0
[factors.disk]
knob   = "storage"
levels = ["first", "second"]
[factors.scale]
knob   = "dataset"
levels = [1, 2]
[design]
blocks = 1
"""


def test_arms_differ_in_their_disk_and_in_the_size_of_their_data(place, enterable, programs):
    for name in ("first", "second"):
        (enterable / name).mkdir(mode=0o755)
    (place.directory / "places.toml").write_text(TEXT.replace("DIRECTORY", str(enterable)))
    result = place.run("run", "places.toml", "--allow-host-changes")

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    findings = json.loads((folder.path / "findings.json").read_text())
    arms = {arm["name"]: arm for arm in findings["experiment"]["arms"]}
    assert list(arms) == [f"disk={disk},scale={scale}" for disk in ("first", "second") for scale in (1, 2)]
    assert [arm["disk"] for arm in arms.values()] == ["first", "first", "second", "second"]
    assert not any(arm["is_emulated"] for arm in arms.values())
    assert findings["experiment"]["workload"]["data"]["text"] == "scale 1, 2"
    places = [str(path) for path in folder.work_directories()]
    assert sum(path.startswith(f"{enterable}/first/") for path in places) == 2
    assert sum(path.startswith(f"{enterable}/second/") for path in places) == 2
    folder.assert_nothing_left()
    notes = [json.loads(data) for (data,) in folder.query("SELECT data FROM event WHERE kind = 'pages'")]
    assert [note["moment"] for note in notes] == ["before", "under load", "after"] * 4
    shared = [note["shared"] for note in notes if note["moment"] == "under load"]
    assert {each["page"] for each in shared} == {mmap.PAGESIZE}
    assert all(each["size"] > 128 * 1024**2 for each in shared)  # the default of shared_buffers, and more
    counted = [json.loads(data) for (data,) in folder.query("SELECT data FROM event WHERE kind = 'translations'")]
    assert all(bool(each["counts"]) != bool(each["reason"]) for each in counted)
    assert len(counted) == 4
