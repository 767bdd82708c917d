import pytest

from pgtrial.errors import ConnectError, PreflightError
from pgtrial.hosts.connect import open_host
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.processes import identify


@pytest.mark.parametrize("address", [None, "local"])
def test_without_an_address_it_is_this_machine(runner, address):
    async def opened() -> object:
        async with open_host(address, mark="/results/x") as host:
            return host

    host = runner.run(opened())

    assert isinstance(host, LocalHost)
    assert (host.name, host.mark, host.session_argv) == ("local", "/results/x", ())


def test_address_is_connected_to_until_the_end(runner, ssh_client):
    address, started = ssh_client(), []

    async def opened() -> str:
        async with open_host(address, on_start=lambda process, role: started.append(process)) as host:
            assert host.name == address
            assert (await host.run(["cat", "/proc/sys/kernel/random/boot_id"])).stdout.strip() == host.ops.boot_id()
            return host.ops.uname()["node"]

    assert runner.run(opened())
    assert all(identify(process.pid) is None for process in started)


def test_what_is_no_address_is_refused(runner):
    async def opened() -> None:
        async with open_host("db1"):
            raise AssertionError

    with pytest.raises(PreflightError):
        runner.run(opened())


def test_unreachable_host_is_an_error(runner, ssh_client):
    ssh_client()

    async def opened() -> None:
        async with open_host("ssh://127.0.0.1:1"):
            raise AssertionError

    with pytest.raises(ConnectError):
        runner.run(opened())
