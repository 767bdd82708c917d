"""Connection strings of libpq: what is in them as far as an experiment file has to know; never a password.

Source: PostgreSQL documentation, "Connection Strings"; src/interfaces/libpq/fe-connect.c.
"""

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import unquote

SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")

# Name a file with more parameters, and one to which keys are written; let the server act as the user.
_CALLERS_OWN = ("servicefile", "sslkeylogfile", "gssdelegation")

_SCHEME = re.compile(r"postgres(?:ql)?://")
_PAIR = re.compile(
    r"\s*(?P<name>[^=\s]+)\s*=\s*(?:'(?P<quoted>(?:\\.|[^'\\])*)'(?=\s|$)|(?P<bare>(?:\\.|[^\s\\'])*))\s*"
)
_SERVICE = "in .pgpass, in a file that PGPASSFILE names, or in a service file"
_FORM = 'write "service=bench", "host=db user=me" or "postgresql://me@db"'


def read_connection(text: str) -> dict[str, str]:
    """Parameters by name; of a URI only its hosts, its user and what stands behind the question mark.

    Raises ValueError, "what is wrong; what to do", which never quotes the text: a part of it may be a password.
    """
    found = _read_uri(text) if _SCHEME.match(text) else _read_pairs(text)
    if any(found.get(name) for name in SECRETS):
        raise ValueError(f"no password belongs in a file or on a command line; put it {_SERVICE}")
    refuse_code(found)
    return found


def refuse_code(parameters: Mapping[str, object]) -> None:
    """ValueError for parameters by which libpq itself, with the rights of pgtrial, loads a library or writes a file."""
    if ":" in str(parameters.get("sslkey") or ""):
        raise ValueError("sslkey names an OpenSSL engine, which is a library; name the file of the key")
    for name in _CALLERS_OWN:
        if parameters.get(name):
            raise ValueError(f"{name} does not belong in a file; set it in the environment")


def is_elsewhere(text: str) -> bool:
    """Whether a connection string that can be read names a server on another machine.

    Not known, and so False, where a service file or the environment decides.
    """
    return bool(hosts_elsewhere(read_connection(text)))


def hosts_elsewhere(parameters: Mapping[str, str]) -> frozenset[str]:
    """The names or addresses of other machines that are connected to; see ``is_elsewhere``."""
    hosts = (host.strip() for host in (parameters.get("hostaddr") or parameters.get("host") or "").split(","))
    return frozenset(host for host in hosts if not _is_here(host))


def is_socket(host: str) -> bool:
    """Whether a host is a directory with Unix sockets, or an abstract one."""
    return host.startswith(("/", "@"))


def _is_here(host: str) -> bool:
    if host in {"", "localhost"} or is_socket(host):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read_pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while text[at:].strip():
        match = _PAIR.match(text, at)
        if match is None:
            raise ValueError(f"it is not a connection string of libpq; {_FORM}")
        value = match["quoted"] if match["quoted"] is not None else match["bare"]
        found[match["name"]] = re.sub(r"\\(.)", r"\1", value)
        at = match.end()
    return found


def _read_uri(text: str) -> dict[str, str]:
    rest, _, parameters = text.partition("://")[2].partition("?")
    credentials, at, place = rest.rpartition("@")
    user, colon, password = credentials.partition(":")
    hosts = [_without_port(host) for host in (place if at else rest).partition("/")[0].split(",")]
    found = {"user": unquote(user), "password": unquote(password) if colon else "", "host": unquote(",".join(hosts))}
    for parameter in filter(None, parameters.split("&")):
        name, equals, value = parameter.partition("=")
        if not equals:
            raise ValueError(f"it is not a connection URI of libpq; {_FORM}")
        found[unquote(name)] = unquote(value)
    return {name: value for name, value in found.items() if value}


def _without_port(host: str) -> str:
    match = re.fullmatch(r"\[(?P<address>[^\]]*)\](?::.*)?", host)
    return match["address"] if match is not None else host.partition(":")[0]
