import pytest

from pgtrial.errors import SettingError
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.sysctl import find_file, name_of

NET = "/proc/sys/net/ipv4/conf"


@pytest.fixture
def host(tree):
    tree.add(
        {
            "/proc/sys/vm/swappiness": "60\n",
            "/proc/sys/vm/dirty_ratio": "20\n",
            "/proc/sys/vm/dirty_bytes": "0\n",
            "/proc/sys/fs/file-max": "9\n",
            f"{NET}/eth0/rp_filter": "1\n",
            f"{NET}/eth0.100/rp_filter": "2\n",
            "/etc/passwd": "root\n",
        }
    )
    return tree


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("vm.swappiness", "/proc/sys/vm/swappiness"),
        ("vm/swappiness", "/proc/sys/vm/swappiness"),
        ("fs.file-max", "/proc/sys/fs/file-max"),
        ("net.ipv4.conf.eth0.rp_filter", f"{NET}/eth0/rp_filter"),
        ("net.ipv4.conf.eth0/100.rp_filter", f"{NET}/eth0.100/rp_filter"),
        ("net/ipv4/conf/eth0.100/rp_filter", f"{NET}/eth0.100/rp_filter"),
        ("net.ipv4.conf.eth0.100.rp_filter", f"{NET}/eth0.100/rp_filter"),
    ],
)
def test_file_of_a_name(host, name: str, path: str):
    assert find_file(host, name) == path


@pytest.mark.parametrize("path", ["/proc/sys/vm/swappiness", f"{NET}/eth0.100/rp_filter"])
def test_name_of_a_file_leads_back_to_it(host, path: str):
    assert find_file(host, name_of(path)) == path


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "vm", "../../etc/passwd", "vm/../../../etc/passwd", "/etc/passwd", "vm..swappiness", "vm.swap\n"],
)
def test_what_is_no_name_is_refused_wherever_it_leads(host, name: str):
    with pytest.raises(SettingError):
        find_file(host, name)


def test_dots_that_would_become_a_step_upwards_are_refused(host):
    with pytest.raises(SettingError, match="is not the name of a kernel setting"):
        find_file(host, "vm.//.swappiness")


def test_group_is_told_from_a_setting(host):
    with pytest.raises(SettingError, match='"vm" is a group of kernel settings, not one of them'):
        find_file(host, "vm")


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("vm.swapiness", "vm.swappiness"), ("swappiness", "vm.swappiness"), ("fs.file_max", "fs.file-max")],
)
def test_name_that_does_not_exist_hints_at_the_nearest(host, wrong: str, meant: str):
    with pytest.raises(SettingError) as caught:
        find_file(host, wrong)

    assert caught.value.message == f'the kernel has no setting "{wrong}"'
    assert f'Perhaps you meant "{meant}".' in caught.value.hint


def test_nearest_name_is_written_as_it_can_be_given(host):
    with pytest.raises(SettingError) as caught:
        find_file(host, "net.ipv4.conf.eth0.100.rp_filte")

    assert 'Perhaps you meant "net.ipv4.conf.eth0/100.rp_filter".' in caught.value.hint


def test_every_setting_of_this_machine_is_found_by_its_name():
    ops = Operations()
    paths = [path for depth in range(1, 7) for path in ops.glob("/proc/sys/vm" + "/*" * depth)]

    assert len(paths) > 20
    assert [find_file(ops, name_of(path)) for path in paths] == paths
