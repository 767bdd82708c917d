"""Access control, and restrictions on what a browser may do with the pages.

Access needs the token in the address, once, and then a cookie, and only works under a name of this machine itself.
A monitor, which reads figures and nothing else, says a token in a header each time.
Except for the secrets, everything here is a pure function of a request's headers.

What browsers are told to refuse, with each kind of answer: the pages of the server itself have no inline script and no
inline style; their scripts put texts into the page as text only, to which Trusted Types hold them.

A report is another thing: one file, whose scripts stand in it, and a folder may come from anybody. Hashes of its
scripts would prove nothing, as a hostile script would be hashed like any other. So a report gets what it needs, inline
scripts, and lives in a sandbox: an origin of its own, which can read nothing of this server, load nothing, send no form
and open no window.
"""

import hmac
import os
import re
import secrets
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs

from pgtrial.errors import SpecError
from pgtrial.safe_files import open_file
from pgtrial.safe_text import shell_word

_BYTES = 32  # of randomness
_MOST_FIELDS = 10  # of a query
_BEARER = re.compile(r"(?i:bearer) +([A-Za-z0-9._~+/=-]+)")  # RFC 6750, section 2.1
_MOST_TOKEN = 2000  # bytes of its file
_CHOSEN = re.compile(rb"([A-Za-z0-9._~+/=-]{32,1000})\s*")  # by a user, for a monitor
# A page of another site can make a name of its own mean 127.0.0.1; the browser still says the name it was asked for.
_OWN_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})

_COMMON = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_ENTRY_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_DATA_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"

PAGE = {**_COMMON, "Content-Security-Policy": _PAGE_POLICY}
REPORT = {**_COMMON, "Content-Security-Policy": _REPORT_POLICY}
# Not in a sandbox: where the browser goes on from here, it has to be this site that it comes from.
ENTRY = {**_COMMON, "Content-Security-Policy": _ENTRY_POLICY}
DATA = {**_COMMON, "Content-Security-Policy": _DATA_POLICY}


def _new_secret() -> str:
    return secrets.token_urlsafe(_BYTES)


@dataclass(frozen=True, slots=True)
class Access:
    """``token`` opens the door and stands in the address that is printed; ``session`` is what the cookie holds.

    They are two, so that what other programs on 127.0.0.1 may see, which get this host's cookies whatever their port,
    is not what a browser keeps in its history, and the other way round. ``monitor`` is a token that lasts, for figures
    alone; "" where there is none.
    """

    port: int
    token: str = field(default_factory=_new_secret, repr=False)
    session: str = field(default_factory=_new_secret, repr=False)
    monitor: str = field(default="", repr=False)

    @property
    def cookie_name(self) -> str:
        """With the port, as two servers on one machine share their cookies."""
        return f"pgtrial-{self.port}"

    def cookie(self) -> str:
        """Value of a Set-Cookie header."""
        return f"{self.cookie_name}={self.session}; HttpOnly; SameSite=Strict; Path=/"

    def has_token(self, query: str) -> bool | None:
        """Whether a query string has the token; None where it has none at all."""
        try:
            given = parse_qs(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS).get("token")
        except ValueError:  # more of them
            return False
        if given is None:
            return None
        return len(given) == 1 and _same(given[0], self.token)

    def has_cookie(self, headers: Sequence[str]) -> bool:
        """Whether one of the Cookie headers has the session."""
        pairs = (pair.partition("=") for header in headers for pair in header.split(";"))
        # Others on this machine may have set whatever they like: only ours is looked at.
        return any(name.strip() == self.cookie_name and _same(value.strip(), self.session) for name, _, value in pairs)

    def has_bearer(self, headers: Sequence[str]) -> bool:
        """Whether the Authorization header, of which there must be one, has a token that opens figures."""
        match = _BEARER.fullmatch(headers[0].strip()) if len(headers) == 1 else None
        if match is None:
            return False
        is_monitor = _same(match[1], self.monitor)  # what is sent is not empty, as no token may be
        return _same(match[1], self.token) or is_monitor


def read_monitor_token(path: Path) -> str:
    """The token in a file, which only its owner and group may read. Raises SpecError."""
    try:
        with open_file(path, follow=True) as file:
            mode, content = os.fstat(file.fileno()).st_mode, file.read(_MOST_TOKEN)
    except OSError as err:
        raise SpecError(f'cannot read "{path}": {err.strerror}') from err
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise SpecError(
            f'everybody may read or write the token in "{path}"',
            hint=f"Take that right away: chmod o= {shell_word(path)}",
        )
    match = _CHOSEN.fullmatch(content)
    if match is None:
        raise SpecError(
            f'"{path}" has no token: one line of 32 letters, digits and ._~+/=- or more',
            hint="Make one: openssl rand -hex 32",
        )
    return match[1].decode()


def is_own_host(headers: Sequence[str]) -> bool:
    """Whether a request's Host headers, of which there must be one, name this machine itself.

    The port may be another one, as of an ssh tunnel.
    """
    if len(headers) != 1:
        return False
    name, separator, port = headers[0].strip().lower().rpartition(":")
    if not separator or port.endswith("]"):  # without a port; the last colon of an address in brackets is none of its
        name, port = headers[0].strip().lower(), ""
    return name in _OWN_NAMES and (not port or (port.isascii() and port.isdigit()))


def _same(given: str, secret: str) -> bool:
    """Compared in a time that does not tell how much is right."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())
