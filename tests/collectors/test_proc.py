"""The parsers of /proc on text of an old kernel (few fields) and of a new one (more fields than are known)."""

import pytest

from pgtrial.collectors import proc

BY_NAME = {collector.name: collector for collector in (*proc.COLLECTORS, *proc.STALLS)}

STAT_OLD = """\
cpu  46231 120 10344 884531 2010 0 99
cpu0 46231 120 10344 884531 2010 0 99
intr 1130923 33 9 0
ctxt 2239004
btime 1417203245
processes 20011
procs_running 1
procs_blocked 3
"""
STAT_NEW = """\
cpu  6937 2 3312 211988 436 1 78 10 5 3 77
cpu0 1326 0 842 109184 12 0 13 2 0 0 77
cpu1 5611 0 2469 102804 424 0 64 8 0 0 77
intr 248355 0 0 0 1 1 14
ctxt 459531
btime 1795231178
processes 10161
procs_running 2
procs_blocked 0
softirq 193216 0 20731 4 17776
unheard_of 1 2 3
"""
DISKSTATS_OLD = """\
   8       0 sda 58735 10364 4126882 11739 26675 44027 4590544 7923 2 6712 20187
   8       1 sda1 58000 10364 4126000 11700 26675 44027 4590544 7923 0 6700 20100
"""
DISKSTATS_NEW = """\
 254       0 vda 58735 10364 4126882 11739 26675 44027 4590544 7923 0 6712 20187 8091 16 652176 424 3291 99 123 456
"""
VMSTAT_OLD = """\
nr_free_pages 885093
nr_dirty 56734
pgpgin 3439361
allocstall 12
workingset_refault 648549
"""
VMSTAT_NEW = """\
nr_free_pages 885093
nr_free_pages_blocks 838144
nr_dirty 56734
nr_dirty_threshold 1192616
nr_dirty_background_threshold 595580
workingset_refault_anon 3
workingset_refault_file 648549
pgpgin 3439361
pgpgout 2947948
pgscan_direct 7
allocstall_normal 12
nr_unstable 0
"""
MEMINFO_OLD = """\
MemTotal:        1016252 kB
MemFree:          105700 kB
Active(file):     249392 kB
HugePages_Total:       3
Hugepagesize:       2048 kB
"""
MEMINFO_NEW = """\
MemTotal:       24684084 kB
MemAvailable:   23851960 kB
SecPageTables:         0 kB
Dirty:            226936 kB
HugePages_Free:        1
Unheard_of:            1 of 2 kB
"""
PRESSURE_OLD = "some avg10=0.34 avg60=0.54 avg300=0.26 total=6560526\n"
PRESSURE_NEW = PRESSURE_OLD + "full avg10=0.00 avg60=0.00 avg300=0.00 total=17 more=1\nrest avg10=0.00 total=4\n"


def values(text: str, name: str) -> dict[str, float]:
    return {f"{metric}[{about}]" if about else metric: value for metric, about, value in BY_NAME[name].parse(text)}


def test_cpu_times_are_seconds() -> None:
    new = values(STAT_NEW, "proc_stat")

    assert new["proc_stat.cpu_user[all]"] == 69.37
    assert new["proc_stat.cpu_steal[all]"] == 0.1
    assert new["proc_stat.cpu_guest_nice[all]"] == 0.03
    assert new["proc_stat.cpus"] == 2
    assert new["proc_stat.intr"] == 248355
    assert new["proc_stat.softirqs"] == 193216
    assert new["proc_stat.procs_running"] == 2


def test_kernel_without_steal_time_has_no_reading_of_it() -> None:
    old = values(STAT_OLD, "proc_stat")

    assert old["proc_stat.cpu_softirq[all]"] == 0.99
    assert "proc_stat.cpu_steal[all]" not in old
    assert old["proc_stat.procs_blocked"] == 3
    assert old["proc_stat.cpus"] == 1


def test_sectors_are_512_bytes_and_times_seconds() -> None:
    new = values(DISKSTATS_NEW, "disk")

    assert new["disk.reads[vda]"] == 58735
    assert new["disk.read_bytes[vda]"] == 4126882 * 512
    assert new["disk.write_time[vda]"] == pytest.approx(7.923)
    assert new["disk.queue_time[vda]"] == pytest.approx(20.187)
    assert new["disk.flush_time[vda]"] == pytest.approx(0.099)
    assert len(new) == 17


def test_kernel_without_discards_has_no_reading_of_them() -> None:
    old = values(DISKSTATS_OLD, "disk")

    assert old["disk.in_flight[sda]"] == 2
    assert old["disk.reads[sda1]"] == 58000
    assert not [name for name in old if "discard" in name or "flush" in name]


def test_pages_are_counts_and_paged_kilobytes_are_bytes() -> None:
    new = values(VMSTAT_NEW, "proc_vmstat")

    assert new["proc_vmstat.nr_dirty_threshold"] == 1192616
    assert new["proc_vmstat.pgpgin"] == 3439361 * 1024
    assert "proc_vmstat.nr_unstable" not in new
    assert "proc_vmstat.workingset_refault" not in new


def test_old_name_of_refaults_is_read() -> None:
    assert values(VMSTAT_OLD, "proc_vmstat")["proc_vmstat.workingset_refault"] == 648549


def test_memory_is_bytes_and_huge_pages_are_a_count() -> None:
    assert values(MEMINFO_OLD, "proc_meminfo") == {
        "proc_meminfo.MemTotal": 1016252 * 1024,
        "proc_meminfo.MemFree": 105700 * 1024,
        "proc_meminfo.Active(file)": 249392 * 1024,
        "proc_meminfo.HugePages_Total": 3,
        "proc_meminfo.Hugepagesize": 2048 * 1024,
    }
    assert values(MEMINFO_NEW, "proc_meminfo").keys() == {
        "proc_meminfo.MemTotal",
        "proc_meminfo.MemAvailable",
        "proc_meminfo.Dirty",
        "proc_meminfo.HugePages_Free",
    }


def test_stall_times_are_seconds() -> None:
    assert values(PRESSURE_OLD, "pressure_io") == {"pressure.io_some_total": pytest.approx(6.560526)}
    assert values(PRESSURE_NEW, "pressure_memory") == {
        "pressure.memory_some_total": pytest.approx(6.560526),
        "pressure.memory_full_total": pytest.approx(17e-6),
    }


def test_full_stall_of_cpu_is_not_defined_so_it_is_not_read() -> None:
    assert list(values(PRESSURE_NEW, "pressure_cpu")) == ["pressure.cpu_some_total"]


def test_load_averages_and_tasks() -> None:
    assert values("0.08 0.04 1.50 3/92 10161\n", "proc_loadavg") == {
        "proc_loadavg.load1": 0.08,
        "proc_loadavg.load5": 0.04,
        "proc_loadavg.load15": 1.5,
        "proc_loadavg.tasks_runnable": 3,
        "proc_loadavg.tasks": 92,
    }


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("proc_stat", (STAT_OLD, STAT_NEW)),
        ("disk", (DISKSTATS_OLD, DISKSTATS_NEW)),
        ("proc_vmstat", (VMSTAT_OLD, VMSTAT_NEW)),
        ("proc_meminfo", (MEMINFO_OLD, MEMINFO_NEW)),
        ("pressure_io", (PRESSURE_OLD, PRESSURE_NEW)),
        ("proc_loadavg", ("0.08 0.04 0.04 1/92 10161\n",)),
    ],
)
def test_every_reading_is_of_a_declared_metric(name: str, texts: tuple[str, ...]) -> None:
    declared = {metric.name for metric in BY_NAME[name].metrics}

    assert {reading.metric for text in texts for reading in BY_NAME[name].parse(text)} <= declared
