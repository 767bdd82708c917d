"""One question to an OpenAI-compatible endpoint, one answer; address and key from the environment only.

The key goes into one header and nowhere else: not to disk, not into a log, not into a message. It is sent only to the
address it belongs to: redirections are not followed.
"""

import contextlib
import http.client
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from pgtrial.errors import PgTrialError
from pgtrial.http_client import is_of_this_machine, make_opener
from pgtrial.safe_text import make_visible
from pgtrial.units import read_count

URL = "PGTRIAL_NARRATE_URL"
KEY = "PGTRIAL_NARRATE_KEY"
OPENAI_URL = "OPENAI_BASE_URL"
OPENAI_KEY = "OPENAI_API_KEY"

TRIES = 3
MOST_BYTES = 2_000_000  # of an answer with all that is around its text
_LONGEST_NAME = 80  # characters of a model's name
_MOST_DETAIL = 300  # characters of what a server says about an error
_LONGEST_PAUSE = 30.0  # s that a server may ask to wait before the next try
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})  # worth another try
_PIECE = 65536
_KEY_TRACE = 6  # characters of the key in a row that give it away


class EndpointError(PgTrialError):
    """The endpoint did not give an answer that can be used."""


class EndpointUsageError(EndpointError):
    """The environment does not say which endpoint, or says it wrongly."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """Of a chat; ``role`` is system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``is_cut``: the model stopped because its answer became too long."""

    text: str
    model: str
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """``url`` is the base, as OpenAI's libraries take it: "http://127.0.0.1:11434/v1"."""

    url: str
    key: str = field(default="", repr=False)

    @property
    def is_local(self) -> bool:
        return is_of_this_machine(self.url)

    @property
    def is_open(self) -> bool:
        """Whether what is sent can be read on its way: not encrypted, and not to this machine."""
        return urlsplit(self.url).scheme == "http" and not self.is_local

    @property
    def place(self) -> str:
        """Host and port, which a message may show; a path could hold a token."""
        return f"the endpoint at {make_visible(urlsplit(self.url).netloc)}"

    def clean(self, text: str) -> str:
        """A text from outside for a message; nothing of it where it holds a part of the key."""
        key, shown = self.key, make_visible(text)
        if any(key[start : start + _KEY_TRACE] in text for start in range(max(0, len(key) - _KEY_TRACE + 1))):
            return ""
        return shown if len(shown) <= _MOST_DETAIL else f"{shown[:_MOST_DETAIL]}…"


def read_endpoint(environment: Mapping[str, str]) -> Endpoint:
    """The endpoint that the environment names. A key goes with the address it belongs to, and to no other.

    EndpointUsageError when there is no address, or one that cannot be used.
    """
    for url_name, key_name in ((URL, KEY), (OPENAI_URL, OPENAI_KEY)):
        url = environment.get(url_name, "").strip()
        if url:
            key = environment.get(key_name, "").strip()
            if not key.isascii() or not key.isprintable():  # one with line breaks could add other headers
                raise EndpointUsageError(f"{key_name} contains characters that a key cannot have")
            return Endpoint(url=_check_url(url, url_name), key=key)
    raise EndpointUsageError(
        "no endpoint for the model is configured",
        hint=f"Set {URL} (and {KEY}, where it needs one), for instance to http://127.0.0.1:11434/v1; or "
        f"{OPENAI_URL} and {OPENAI_KEY}. Without any model: pgtrial narrate DIR.",
    )


def _check_url(url: str, name: str) -> str:
    """Without a slash at its end. What is wrong with it is said without showing it: it may hold a password."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and (parts.port is None or parts.port > 0)
    except ValueError:
        raise EndpointUsageError(f"{name} is not a web address") from None
    # What no name can be would be found out only on the way, by another kind of error.
    labels = (parts.hostname or "").removesuffix(".").split(".")
    is_plain = url.isascii() and url.isprintable() and not set("@?# ") & set(url)
    if not is_address or not is_plain or not all(0 < len(label) < 64 for label in labels):
        raise EndpointUsageError(
            f"{name} is not a usable web address",
            hint="It should look like http://127.0.0.1:11434/v1: no user or password in it, nothing behind the path, "
            f"names of other alphabets as xn--…. A key goes into {KEY}.",
        )
    return url.rstrip("/")


def ask(
    endpoint: Endpoint,
    messages: Sequence[ChatMessage],
    *,
    model: str,
    timeout: float,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """The model's answer. ``timeout`` is in seconds, for each of at most TRIES tries. EndpointError otherwise."""
    body = json.dumps({"model": model, "messages": [asdict(message) for message in messages], "stream": False}).encode()
    for tried in range(1, TRIES + 1):
        watch = _Watch()
        timer = threading.Timer(timeout, watch.end)
        timer.daemon = True
        timer.start()
        try:
            return _read_answer(_post(endpoint, body, timeout=timeout, clock=clock, watch=watch), model)
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in _PASSING or tried == TRIES:
                    raise _refused(endpoint, error, model) from None
                pause(_asked_pause(error, tried))
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            if watch.has_ended or isinstance(reason, TimeoutError):
                raise EndpointError(
                    f"{endpoint.place} did not complete an answer within {timeout:g} s",
                    hint="Allow more time with --timeout, use a smaller model, or check that the endpoint is running.",
                ) from None
            if tried == TRIES:
                raise EndpointError(
                    f"{endpoint.place} cannot be reached",
                    detail=endpoint.clean(str(reason)),
                    hint=f"Check that it is running, and that {URL} or {OPENAI_URL} is correct.",
                ) from None
            pause(float(tried))
        finally:
            timer.cancel()
    raise AssertionError  # the last try returns or raises


class _Watch(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Makes the connections of a request, and can end them: a server may send its head byte by byte, for ever."""

    def __init__(self) -> None:
        urllib.request.HTTPSHandler.__init__(self)
        self.has_ended = False
        self._sockets: list[socket.socket] = []

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_Plain, watch=self), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_Encrypted, watch=self), req)

    def note(self, connected: socket.socket) -> None:
        self._sockets.append(connected)

    def end(self) -> None:
        self.has_ended = True
        for each in self._sockets:
            with contextlib.suppress(OSError):  # it has gone by itself
                each.shutdown(socket.SHUT_RDWR)


class _Plain(http.client.HTTPConnection):
    def __init__(self, *args: Any, watch: _Watch, **options: Any) -> None:
        super().__init__(*args, **options)
        self._watch = watch

    def connect(self) -> None:
        super().connect()
        self._watch.note(self.sock)


class _Encrypted(http.client.HTTPSConnection):
    def __init__(self, *args: Any, watch: _Watch, **options: Any) -> None:
        super().__init__(*args, **options)
        self._watch = watch

    def connect(self) -> None:
        super().connect()
        self._watch.note(self.sock)


def _post(endpoint: Endpoint, body: bytes, *, timeout: float, clock: Callable[[], float], watch: "_Watch") -> bytes:
    """The body of the answer. TimeoutError when it is not whole in time, EndpointError when it is too large."""
    deadline = clock() + timeout
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "pgtrial"}
    if endpoint.key:
        headers["Authorization"] = f"Bearer {endpoint.key}"
    request = urllib.request.Request(f"{endpoint.url}/chat/completions", data=body, headers=headers, method="POST")
    with make_opener(endpoint.url, watch).open(request, timeout=timeout) as response:
        found = bytearray()
        while piece := response.read1(_PIECE):
            found += piece
            if len(found) > MOST_BYTES:
                raise EndpointError(f"the endpoint's answer is larger than {MOST_BYTES} bytes")
            if clock() > deadline:
                raise TimeoutError
        announced = read_count(response.headers.get("Content-Length", ""))
        if announced is not None and len(found) < announced:
            raise http.client.IncompleteRead(b"", announced - len(found))
    return bytes(found)


def _read_answer(body: bytes, model: str) -> Answer:
    """The text of the first choice. EndpointError when the body is no such answer."""
    hint = "Look whether the address is that of an OpenAI-compatible API; it often ends in /v1."
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise EndpointError("the endpoint's answer is not JSON", hint=hint) from None
    try:
        choice = found["choices"][0]
        content = choice["message"].get("content")
        if isinstance(content, list):  # in parts
            content = "".join(part["text"] for part in content if isinstance(part.get("text"), str))
        is_cut, told = choice.get("finish_reason") == "length", found.get("model")
    except (LookupError, TypeError, AttributeError):
        raise EndpointError("the endpoint's answer is JSON, but contains no text from a model", hint=hint) from None
    text = content.strip() if isinstance(content, str) else ""
    if text.startswith("<think>") and "</think>" in text:  # some models write what they think before they answer
        text = text.partition("</think>")[2].strip()
    if not text:
        raise EndpointError(
            "the model gave an empty answer",
            hint="Try again, or use another model; some return nothing when they refuse.",
        )
    name = told if isinstance(told, str) and told else model
    return Answer(text=text, model=name[:_LONGEST_NAME], is_cut=is_cut)


def _refused(endpoint: Endpoint, error: urllib.error.HTTPError, model: str) -> EndpointError:
    code, hint = error.code, ""
    match code:
        case 401 | 403:
            message, hint = "refuses the key", f"Look at {KEY} or {OPENAI_KEY}."
        case 404:
            message = f'has no model "{make_visible(model)}", or is no such API'
            hint = "Look at the model's name; the address often ends in /v1."
        case 429:
            message, hint = "takes no more requests for now", "Try again later, or look at the account's limits."
        case _ if 300 <= code < 400:
            message = "redirects to another address, which is not followed"
            hint = f"Set {URL} or {OPENAI_URL} to the address that it really has."
        case _:
            message = "answers with an error"
    # What a server says about a key may hold parts of it.
    detail = "" if code in {401, 403} else _said(endpoint, error)
    return EndpointError(f"{endpoint.place} {message} (HTTP {code})", detail=detail, hint=hint)


def _said(endpoint: Endpoint, error: urllib.error.HTTPError) -> str:
    """What the server says about an error, cut and made visible; nothing where it cannot be read."""
    try:
        body = error.read(_PIECE).decode("utf-8", errors="replace")
    except (OSError, http.client.HTTPException):
        return ""
    try:
        told = json.loads(body)["error"]
        told = told["message"] if isinstance(told, dict) else told
        body = told if isinstance(told, str) else body
    except (ValueError, LookupError, TypeError, RecursionError):
        pass
    return endpoint.clean(" ".join(body.split()))


def _asked_pause(error: urllib.error.HTTPError, tried: int) -> float:
    """Seconds until the next try: as the server asks, within bounds, else one more each time."""
    asked = error.headers.get("Retry-After") or ""
    return min(float(asked), _LONGEST_PAUSE) if asked.isascii() and asked.isdigit() else float(tried)
