"""Requests to an address that the user has named: they go there, and nowhere else."""

import urllib.request
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit


def is_of_this_machine(url: str) -> bool:
    """Whether the address is one of this machine's own, which no other machine can read along."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def make_opener(url: str, *handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """What opens ``url``: without redirections, and without a proxy to this machine."""
    direct = [urllib.request.ProxyHandler({})] if is_of_this_machine(url) else []
    return urllib.request.build_opener(_NoRedirection(), *handlers, *direct)


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """A redirection would carry a key, or what is sent, to an address that nobody has named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None
