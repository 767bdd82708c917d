"""Command lines for OpenSSH's client: the address of a host, the connection to it, and its forwards."""

import ipaddress
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pgtrial.errors import ConnectError, LostHostError, PreflightError

# Neither may begin with a hyphen: ssh would take it for an option.
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.$@-]*")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_ADDRESS = re.compile(r"ssh://(?:(?P<user>.*)@)?(?P<host>\[[^\]]*\]|[^:\[\]]*)(?::(?P<port>.*))?")
_FORM = 'write "ssh://host", "ssh://user@host" or "ssh://user@host:22"'
_LARGEST_PORT = 65_535
_OPTIONS = (
    "BatchMode=yes",  # a question would wait for ever
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "RemoteCommand=none",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "LogLevel=INFO",  # a user may have asked for silence; its words are wanted when something goes wrong
    "StreamLocalBindUnlink=yes",
    "StreamLocalBindMask=0177",
    "ControlMaster=yes",
    "ControlPersist=no",
)
# For what goes over the connection: nothing of the user's configuration (its forwardings would be made once more), and
# no connection of its own when the one is gone.
_OVER_CONNECTION = ("-F", "none", "-o", "BatchMode=yes", "-o", "ProxyCommand=false", "-o", "ControlMaster=no")


class HostAddress(NamedTuple):
    """``user`` and ``port`` are None where ssh's own configuration decides; ``host`` is without brackets."""

    user: str | None
    host: str
    port: int | None


def parse_host(text: str) -> HostAddress:
    """Parts of "ssh://user@host:22"; ``host`` may be a name of ssh's configuration, an IPv6 address has brackets.

    Raises ValueError, "what is wrong; what to do".
    """
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError(f'expected an address such as "ssh://user@host:22"; {_FORM}')
    user, host, port = match["user"], match["host"], match["port"]
    if user is not None and ":" in user:
        raise ValueError("no password belongs in a file; ssh logs in with a key: name only the user")
    if user is not None and not _USER.fullmatch(user):
        raise ValueError(f'"{user}" is not a name of a user; {_FORM}')
    if host.startswith("["):
        host = host[1:-1]
        if not _is_ipv6(host):
            raise ValueError(f'"{host}" is not an IPv6 address; leave the brackets out of other addresses')
    elif not _NAME.fullmatch(host):
        raise ValueError(f'"{host}" is not a name of a host; {_FORM}')
    if port is not None and not (re.fullmatch(r"[0-9]{1,5}", port) and 1 <= int(port) <= _LARGEST_PORT):
        raise ValueError(f'"{port}" is not a port; give a number from 1 to {_LARGEST_PORT}, or leave it out')
    return HostAddress(user=user, host=host, port=None if port is None else int(port))


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return re.fullmatch(r"[0-9A-Za-z:.%_-]+", text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SshCommand:
    """ssh for the host ``name`` (its ssh:// address); ``control`` is the path of the connection's control socket."""

    name: str
    address: HostAddress
    control: str = ""

    def connect(self) -> list[str]:
        """Make the connection; what is to run there comes behind."""
        options = [part for option in _OPTIONS for part in ("-o", option)]
        return [*_program(), "-T", *options, "-o", f"ControlPath={self.control}", *self._destination()]

    def forward(self, here: str, there: str) -> list[str]:
        """Have the connection carry a Unix socket of the host."""
        return [*self._over_connection(), "-O", "forward", "-L", f"{here}:{there}", *self._destination()]

    def session(self) -> list[str]:
        """Run one more program over the connection; what a shell there is to run comes behind, quoted."""
        return [*self._over_connection(), "-T", *self._destination()]

    def by_hand(self) -> str:
        """What a person types to try the connection."""
        return shlex.join([*_program(), *(part for part in self._destination() if part != "--")])

    def _over_connection(self) -> list[str]:
        return [*_program(), *_OVER_CONNECTION, "-o", f"ControlPath={self.control}"]

    def _destination(self) -> list[str]:
        user = [] if self.address.user is None else ["-l", self.address.user]
        port = [] if self.address.port is None else ["-p", str(self.address.port)]
        return [*user, *port, "--", self.address.host]


def ssh_command(name: str) -> SshCommand:
    """Of an ssh:// address. Raises PreflightError if it is none."""
    try:
        return SshCommand(name=name, address=parse_host(name))
    except ValueError as err:
        raise PreflightError(f'"{name}" is not the address of a host', detail=f"{err}.") from err


def _program() -> list[str]:
    """Command line of ssh: that of the environment variable PGTRIAL_SSH, as "ssh -F file", or just ssh."""
    return shlex.split(os.environ.get("PGTRIAL_SSH", "")) or ["ssh"]


# Why a connection failed: ssh's own words turned into one clear error.


TOO_OLD = "pgtrial needs python3 of version 3.8 or later"
_SSH_FAILED = 255  # exit status of ssh itself, as against that of the program it ran
_MOST_NONSENSE = 200  # characters of it
_NOT_FOUND = 127  # exit status of a shell that does not find the program


def explain_failure(ssh: SshCommand, *, status: int | None, words: Sequence[str]) -> ConnectError:
    """The error for a connection that was not made; ``words`` are the lines that ssh and the host printed."""
    text, by_hand = "\n".join(words), ssh.by_hand()
    try_by_hand = f'Make "{by_hand}" work without a question being asked, then try again.'
    message, hint = f'no connection to "{ssh.name}"', try_by_hand
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in text:
        message = f'the host key of "{ssh.name}" has changed'
        hint = "Find out why: it may be another machine. If it is the right one, remove the old key with ssh-keygen -R."
    elif "Host key verification failed" in text:
        message = f'the host key of "{ssh.name}" is not known'
        hint = f'Connect once by hand with "{by_hand}" and compare the key, then try again.'
    elif "Permission denied" in text and status == _SSH_FAILED:
        message = f'permission denied by "{ssh.name}"'
        hint = f"pgtrial asks for no password: set up a key or an agent. {try_by_hand}"
    elif TOO_OLD in text:
        message = f'python3 on "{ssh.name}" is too old'
        hint = "Install Python 3.8 or later there as python3."
    elif status == _NOT_FOUND:
        message = f'no python3 on "{ssh.name}"'
        hint = "Install python3 there, version 3.8 or later; nothing else is needed."
    elif status == 0 or status not in (None, _SSH_FAILED):
        message = f'"{ssh.name}" does not run python3 for pgtrial'
        hint = "The user there must be allowed to run programs: no forced command, no login shell that only prints."
    elif status is None:
        message = f'"{ssh.name}" does not answer'
    return ConnectError(message, detail=_sentence(words), hint=hint)


def explain_loss(ssh: SshCommand, words: Sequence[str]) -> LostHostError:
    """The error for a connection that was there and is no more."""
    return LostHostError(
        f'lost the connection to "{ssh.name}"',
        detail=_sentence(words),
        hint="Check the machine and the network. Whatever ran there has ended, or will end within a minute.",
    )


def explain_nonsense(ssh: SshCommand, what: str) -> LostHostError:
    """The error for an answer that is none of the agent's."""
    return LostHostError(
        f'"{ssh.name}" answers what pgtrial does not understand',
        detail=f"{what[:_MOST_NONSENSE]}.",
        hint="Nothing that it says can be relied on: find out what runs there as python3.",
    )


def _sentence(words: Sequence[str]) -> str:
    """The last lines; those that a banner or a warning of many lines put before them say nothing."""
    telling = [line for line in words if line.strip("@ \r")]
    return "\n".join(telling[-6:]) or "ssh did not say why."
