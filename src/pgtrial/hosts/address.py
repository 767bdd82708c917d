"""Addresses of machines: the ssh:// form of a host."""

import ipaddress
import re
from typing import NamedTuple

# Neither may begin with a hyphen: ssh would take it for an option.
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.$@-]*")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_ADDRESS = re.compile(r"ssh://(?:(?P<user>.*)@)?(?P<host>\[[^\]]*\]|[^:\[\]]*)(?::(?P<port>.*))?")
_FORM = 'write "ssh://host", "ssh://user@host" or "ssh://user@host:22"'
_LARGEST_PORT = 65_535


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
