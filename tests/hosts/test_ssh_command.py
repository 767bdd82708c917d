import shlex

import pytest

from pgtrial.errors import PreflightError
from pgtrial.hosts.ssh.command import ssh_command


def test_address_becomes_arguments_of_ssh(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PGTRIAL_SSH", raising=False)

    assert ssh_command("ssh://me@db1:2222").connect()[-6:] == ["-l", "me", "-p", "2222", "--", "db1"]
    assert ssh_command("ssh://[::1]").session()[-2:] == ["--", "::1"]
    assert ssh_command("ssh://me@db1:2222").by_hand() == "ssh -l me -p 2222 db1"


def test_nothing_is_asked_and_what_goes_over_the_connection_never_makes_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PGTRIAL_SSH", raising=False)
    command = ssh_command("ssh://db1")

    assert "BatchMode=yes" in command.connect()
    for argv in (command.session(), command.forward("/here", "/there")):
        assert "ProxyCommand=false" in argv
        assert "BatchMode=yes" in argv


def test_another_ssh_can_be_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PGTRIAL_SSH", shlex.join(["/opt/my ssh/ssh", "-F", "/etc/my config"]))

    assert ssh_command("ssh://db1").connect()[:3] == ["/opt/my ssh/ssh", "-F", "/etc/my config"]


@pytest.mark.parametrize("text", ["db1", "ssh://-oProxyCommand=id", "ssh://", "ssh://a;b", "ssh://me:secret@db1"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(PreflightError, match="is not the address of a host"):
        ssh_command(text)
