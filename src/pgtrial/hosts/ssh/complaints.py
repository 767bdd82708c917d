"""Why a connection failed: ssh's own words turned into one clear error."""

from collections.abc import Sequence

from pgtrial.errors import ConnectError
from pgtrial.hosts.ssh.command import SshCommand

TOO_OLD = "pgtrial needs python3 of version 3.8 or later"
_SSH_FAILED = 255  # exit status of ssh itself, as against that of the program it ran
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


def explain_loss(ssh: SshCommand, words: Sequence[str]) -> ConnectError:
    """The error for a connection that was there and is no more."""
    return ConnectError(
        f'the connection to "{ssh.name}" is lost',
        detail=_sentence(words),
        hint="Look at the machine and the network between. What ran there has been ended, or ends within a minute.",
    )


def _sentence(words: Sequence[str]) -> str:
    """The last lines; those that a banner or a warning of many lines put before them say nothing."""
    telling = [line for line in words if line.strip("@ \r")]
    return "\n".join(telling[-6:]) or "ssh did not say why."
