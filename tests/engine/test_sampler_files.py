from pgtrial.collectors import throttling
from pgtrial.engine.sampler.files import wanted_files, worth_saying

GROUPS = ("/sys/fs/cgroup/memory/g", "/sys/fs/cgroup/cpu/g")


def test_server_without_a_control_group_has_none_of_its_files() -> None:
    wanted = dict(wanted_files(()))

    assert wanted["proc_stat"] == ["/proc/stat"]
    assert all(paths == [path] and path.startswith("/") for paths in wanted.values() for path in paths)
    assert not [source for source in wanted if source.startswith("cgroup")]


def test_what_another_experiment_asked_the_kernel_to_count_is_not_opened() -> None:
    assert "throttling" not in dict(wanted_files(()))
    traced = dict(wanted_files((), traced=True))
    assert traced["throttling"] == [throttling.COLLECTOR.path, throttling.COLLECTOR.otherwise]


def test_file_of_a_control_group_is_looked_for_in_each_of_them() -> None:
    wanted = dict(wanted_files(GROUPS))

    assert wanted["cgroup_cpu.stat"] == [f"{group}/cpu.stat" for group in GROUPS]
    assert wanted["proc_stat"] == ["/proc/stat"]


def test_file_of_the_other_version_is_nothing_to_talk_about() -> None:
    absent = {"cgroup_memory.current": "/x: No such file or directory", "pressure_io": "/proc/pressure/io: Gone"}

    assert worth_saying(absent, ["cgroup_cpu.stat"], GROUPS) == {"pressure_io": "/proc/pressure/io: Gone"}


def test_control_group_without_any_statistics_is() -> None:
    said = worth_saying({"cgroup_memory.current": "/x: No such file or directory"}, ["proc_stat"], GROUPS)

    assert list(said.values()) == [f"statistics of the control group {', '.join(GROUPS)}"]
    assert worth_saying({}, ["proc_stat"], ()) == {}


def test_a_file_that_is_there_only_when_it_was_asked_for_is_nothing_to_talk_about() -> None:
    absent = {"throttling": "/sys/kernel/tracing/instances/pgtrial: No such file or directory"}

    assert worth_saying(absent, ["proc_stat"], ()) == {}
