"""One question to an OpenAI-compatible endpoint, one answer; address and key from the environment only.

The key goes into one header and nowhere else: not to disk, not into a log, not into a message. It is sent to the
address that it belongs to only: no redirection is followed.
"""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from pgtrial.errors import PgTrialError
from pgtrial.narrate.prompt import Prompt
from pgtrial.report.words import make_visible

URL = "PGTRIAL_NARRATE_URL"
KEY = "PGTRIAL_NARRATE_KEY"
OPENAI_URL = "OPENAI_BASE_URL"
OPENAI_KEY = "OPENAI_API_KEY"

TRIES = 3
MOST_BYTES = 2_000_000  # of an answer with all that is around its text
MOST_CHARACTERS = 30_000  # of a text; a report of some hundred words has some thousand
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
class Endpoint:
    """``url`` is the base, as OpenAI's libraries take it: "http://127.0.0.1:11434/v1"."""

    url: str
    key: str = field(default="", repr=False)

    @property
    def is_open(self) -> bool:
        """Whether what is sent can be read on its way: not encrypted, and not to this machine."""
        parts = urlsplit(self.url)
        return parts.scheme == "http" and not _is_loopback(parts.hostname or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``is_cut``: the model stopped because its answer became too long."""

    text: str
    model: str
    is_cut: bool = False


def read_endpoint(environment: Mapping[str, str]) -> Endpoint:
    """The endpoint that the environment names. A key goes with the address it belongs to, and to no other.

    EndpointUsageError when there is no address, or one that cannot be used.
    """
    for url_name, key_name in ((URL, KEY), (OPENAI_URL, OPENAI_KEY)):
        url = environment.get(url_name, "").strip()
        if url:
            return Endpoint(url=_check_url(url, url_name), key=_check_key(environment.get(key_name, ""), key_name))
    raise EndpointUsageError(
        "no endpoint for the model is known",
        hint=f"Set {URL} (and {KEY}, where it needs one), for instance to http://127.0.0.1:11434/v1; or "
        f"{OPENAI_URL} and {OPENAI_KEY}. Without any model: pgtrial narrate DIR.",
    )


def ask(
    endpoint: Endpoint,
    prompt: Prompt,
    *,
    model: str,
    timeout: float,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """The model's answer. ``timeout`` is in seconds, for each of at most TRIES tries. EndpointError otherwise."""
    body = json.dumps(
        {
            "model": model,
            "messages": [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}],
            "stream": False,
        }
    ).encode()
    for left in range(TRIES - 1, -1, -1):
        try:
            return _read_answer(_post(endpoint, body, timeout=timeout, clock=clock), model)
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in _PASSING or not left:
                    raise _refused(endpoint, error, model) from None
                pause(_asked_pause(error, TRIES - left))
        except TimeoutError:
            raise EndpointError(
                f"the endpoint at {_place(endpoint)} gave no whole answer within {timeout:g} s",
                hint="Give it longer with --timeout, or take a smaller model.",
            ) from None
        except (OSError, http.client.HTTPException) as error:
            reason = _reason(error)
            if isinstance(reason, TimeoutError):
                raise EndpointError(
                    f"the endpoint at {_place(endpoint)} did not answer within {timeout:g} s",
                    hint="Give it longer with --timeout, or look whether it runs.",
                ) from None
            if not left:
                raise EndpointError(
                    f"the endpoint at {_place(endpoint)} cannot be reached",
                    detail=_safe(endpoint, str(reason)),
                    hint=f"Look whether it runs, and whether {URL} or {OPENAI_URL} is right.",
                ) from None
            pause(float(TRIES - left))
    raise AssertionError  # the last try returns or raises


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """A redirection would carry the key to somewhere else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _post(endpoint: Endpoint, body: bytes, *, timeout: float, clock: Callable[[], float]) -> bytes:
    """The body of the answer. TimeoutError when it is not whole in time, EndpointError when it is too large."""
    deadline = clock() + timeout
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "pgtrial"}
    if endpoint.key:
        headers["Authorization"] = f"Bearer {endpoint.key}"
    request = urllib.request.Request(f"{endpoint.url}/chat/completions", data=body, headers=headers, method="POST")
    handlers: list[urllib.request.BaseHandler] = [_NoRedirection()]
    if _is_loopback(urlsplit(endpoint.url).hostname or ""):
        handlers.append(urllib.request.ProxyHandler({}))  # this machine is not behind a proxy
    with urllib.request.build_opener(*handlers).open(request, timeout=timeout) as response:
        pieces, size = [], 0
        while piece := response.read1(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_BYTES:
                raise EndpointError(f"the answer of the endpoint is larger than {MOST_BYTES} bytes")
            if clock() > deadline:
                raise TimeoutError
        announced = response.headers.get("Content-Length", "")
        if announced.isdigit() and size < int(announced):
            raise http.client.IncompleteRead(b"", int(announced) - size)
    return b"".join(pieces)


def _read_answer(body: bytes, model: str) -> Answer:
    """The text of the first choice. EndpointError when the body is no such answer."""
    hint = "Look whether the address is that of an OpenAI-compatible API; it often ends in /v1."
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise EndpointError("the answer of the endpoint is not JSON", hint=hint) from None
    try:
        choice = found["choices"][0]
        message = choice["message"]
        text = _text(message.get("content"))
    except (LookupError, TypeError, AttributeError):
        raise EndpointError("the answer of the endpoint is JSON, but has no text of a model", hint=hint) from None
    text = _without_thoughts(text).strip()
    if not text:
        raise EndpointError(
            "the model gave an empty answer", hint="Try again, or another model; some say nothing when they refuse."
        )
    if len(text) > MOST_CHARACTERS:
        raise EndpointError(f"the model's text is longer than {MOST_CHARACTERS} characters, which no report is")
    told = found.get("model")
    return Answer(
        text=text,
        model=(told if isinstance(told, str) and told else model)[:_LONGEST_NAME],
        is_cut=choice.get("finish_reason") == "length",
    )


def _text(content: Any) -> str:
    """A text, or the texts of a list of parts."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part.get("text"), str))
    return content if isinstance(content, str) else ""


def _without_thoughts(text: str) -> str:
    """Some models write what they think before they answer."""
    if text.lstrip().startswith("<think>") and "</think>" in text:
        return text.partition("</think>")[2]
    return text


def _refused(endpoint: Endpoint, error: urllib.error.HTTPError, model: str) -> EndpointError:
    place = _place(endpoint)
    match error.code:
        case 401 | 403:
            # What a server says here may hold parts of the key.
            return EndpointError(
                f"the endpoint at {place} refuses the key (HTTP {error.code})", hint=f"Look at {KEY} or {OPENAI_KEY}."
            )
        case 404:
            return EndpointError(
                f'the endpoint at {place} has no model "{make_visible(model)}", or is no such API (HTTP 404)',
                detail=_said(endpoint, error),
                hint="Look at the model's name; the address often ends in /v1.",
            )
        case 429:
            return EndpointError(
                f"the endpoint at {place} takes no more requests for now (HTTP 429)",
                detail=_said(endpoint, error),
                hint="Try again later, or look at the account's limits.",
            )
        case code if 300 <= code < 400:
            return EndpointError(
                f"the endpoint at {place} redirects to another address (HTTP {code}), which is not followed",
                hint=f"Set {URL} or {OPENAI_URL} to the address that it really has.",
            )
        case code:
            return EndpointError(
                f"the endpoint at {place} answers with an error (HTTP {code})", detail=_said(endpoint, error)
            )


def _said(endpoint: Endpoint, error: urllib.error.HTTPError) -> str:
    """What the server says about an error, cut and made visible; nothing where it cannot be read."""
    try:
        body = error.read(_PIECE).decode("utf-8", errors="replace")
    except (OSError, http.client.HTTPException):
        return ""
    try:
        found = json.loads(body)
        told = found["error"]["message"] if isinstance(found["error"], dict) else found["error"]
        body = told if isinstance(told, str) else body
    except (ValueError, LookupError, TypeError, RecursionError):
        pass
    return _safe(endpoint, " ".join(body.split()))


def _safe(endpoint: Endpoint, text: str) -> str:
    """A text from outside for a message; nothing of it where it holds a part of the key."""
    key = endpoint.key
    if any(key[start : start + _KEY_TRACE] in text for start in range(max(0, len(key) - _KEY_TRACE + 1))):
        return ""
    shown = make_visible(text)
    return shown if len(shown) <= _MOST_DETAIL else f"{shown[:_MOST_DETAIL]}…"


def _asked_pause(error: urllib.error.HTTPError, tried: int) -> float:
    """Seconds until the next try: as the server asks, within bounds, else one more each time."""
    asked = error.headers.get("Retry-After") or ""
    return min(float(asked), _LONGEST_PAUSE) if asked.isascii() and asked.isdigit() else float(tried)


def _reason(error: BaseException) -> object:
    return error.reason if isinstance(error, urllib.error.URLError) else error


def _place(endpoint: Endpoint) -> str:
    """Host and port, which a message may show; a path could hold a token."""
    return make_visible(urlsplit(endpoint.url).netloc)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_url(url: str, name: str) -> str:
    """Without a slash at its end. What is wrong with it is said without showing it: it may hold a password."""
    try:
        parts = urlsplit(url)
        port_is_right = parts.port is None or parts.port > 0
    except ValueError:
        raise EndpointUsageError(f"{name} is not an address") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port_is_right or not url.isprintable():
        raise EndpointUsageError(
            f"{name} is not an address of the web", hint="It should look like http://127.0.0.1:11434/v1."
        )
    # What no name can be would be found out only on the way, by another kind of error.
    labels = parts.hostname.removesuffix(".").split(".")
    if not url.isascii() or not all(0 < len(label) < 64 for label in labels):
        raise EndpointUsageError(
            f"{name} is not an address of the web",
            hint="Write names of other alphabets as they are sent: http://xn--bcher-kva.example/v1.",
        )
    if "@" in parts.netloc:
        raise EndpointUsageError(f"{name} holds a user or a password", hint=f"Put the key into {KEY}.")
    if parts.query or parts.fragment or " " in url:
        raise EndpointUsageError(f"{name} holds more than an address", hint="Leave out what follows the path.")
    return url.rstrip("/")


def _check_key(key: str, name: str) -> str:
    """A key that can stand in a header; one with line breaks could add others."""
    kept = key.strip()
    if not kept.isascii() or not kept.isprintable():
        raise EndpointUsageError(f"{name} holds characters that no key has")
    return kept
