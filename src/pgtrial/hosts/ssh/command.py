"""Command lines of OpenSSH's client: the connection to a host, and what goes over it."""

import os
import shlex
from dataclasses import dataclass

from pgtrial.errors import PreflightError
from pgtrial.spec.address import HostAddress, parse_host

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
