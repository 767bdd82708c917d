"""New alarms to a webhook: one POST with a JSON body, tried again a bounded number of times.

The address comes from who runs pgtrial and never from a folder. It may hold a token, so no message shows more of it
than host and port. It is sent nowhere else: redirections are not followed, and what is not for this machine goes
encrypted. The folder keeps of each address, by its digest, which alarm was the newest that it got.
"""

import hashlib
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pgtrial.errors import PgTrialError, StoreError
from pgtrial.http_client import is_of_this_machine, make_opener
from pgtrial.safe_files import read_file, write_file
from pgtrial.safe_text import make_visible, parse_json
from pgtrial.watch.alarms import Watched
from pgtrial.watch.layout import HOUR, POSTED
from pgtrial.watch.raised import ServerAlarm

VARIABLE = "PGTRIAL_WEBHOOK"
TRIES = 3
_PATIENCE = 10.0  # s, for each step of a try
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})  # worth another try
_LARGEST = 1 << 16  # bytes of posted.json
_MOST_PLACES = 100  # in it


class WebhookError(PgTrialError):
    """A webhook that did not take what was posted."""


@dataclass(frozen=True, slots=True)
class Webhook:
    url: str = field(repr=False)

    @property
    def place(self) -> str:
        """Host and port; a path could hold a token."""
        return make_visible(urlsplit(self.url).netloc)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.url.encode()).hexdigest()[:16]


def parse_webhook(url: str) -> Webhook:
    """ValueError, which does not show the address, where it is none that may be posted to."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("it is not a web address") from None
    is_plain = url.isascii() and url.isprintable() and not set("@# ") & set(url)
    labels = host.removesuffix(".").split(".")
    if not is_plain or port == 0 or not all(0 < len(label) < 64 for label in labels):
        raise ValueError("it is not a usable web address; a token belongs in its path, not before an @")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_of_this_machine(url)):
        raise ValueError("it has to begin with https://, or with http:// and an address of this machine (127.0.0.1)")
    return Webhook(url)


def new_alarms(folder: Path, webhook: Webhook, found: Watched) -> tuple[ServerAlarm, ...]:
    """Those after the newest one that the webhook has got; at its first time those of the last hour that was read.

    Raises StoreError.
    """
    last = _last_posted(_posted(folder), webhook, found)
    return tuple(alarm for alarm in found.alarms if alarm.at > last)


def remember(folder: Path, webhook: Webhook, found: Watched) -> None:
    """Note that the webhook has got all alarms so far. Raises StoreError."""
    posted = _posted(folder)
    newest = max([_last_posted(posted, webhook, found), *(alarm.at for alarm in found.alarms)])
    others = {key: at for key, at in posted.items() if key != webhook.digest}
    kept = dict(list(others.items())[-(_MOST_PLACES - 1) :])
    try:
        write_file(folder / POSTED, json.dumps({**kept, webhook.digest: newest}) + "\n", for_owner=True)
    except OSError as err:
        raise StoreError(
            f'cannot write "{folder / POSTED}": {err.strerror}',
            detail="The next run would post the same alarms again.",
            hint="Run it as the user who watches.",
        ) from err


def _last_posted(posted: Mapping[str, int], webhook: Webhook, found: Watched) -> int:
    end = found.calm.end if found.rest is None else found.rest.end
    return posted.get(webhook.digest, end - HOUR)


def _posted(folder: Path) -> dict[str, int]:
    try:
        found = parse_json(read_file(folder / POSTED, limit=_LARGEST))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as err:
        raise StoreError(f'"{folder / POSTED}" cannot be read, or is damaged', hint="Remove it.") from err
    if not isinstance(found, dict) or not all(type(at) is int for at in found.values()):
        raise StoreError(f'"{folder / POSTED}" is damaged', hint="Remove it.")
    return found


def body(alarms: tuple[ServerAlarm, ...], *, server: str, database: str, text: str) -> dict[str, Any]:
    """What is posted; "text" is what chats show. An alarm that comes twice has the same id."""
    return {
        "schema_version": 1,
        "text": text,
        "server": server,
        "database": database,
        "alarms": [
            {
                "id": hashlib.sha256(json.dumps([server, database, alarm.at]).encode()).hexdigest()[:16],
                "at": _moment(alarm.at),
                "changes": [
                    {
                        "signal": shift.signal,
                        "part": shift.part,
                        "statement": shift.text,
                        "aspect": shift.aspect.value,
                        "ratio": shift.size,
                        "low": shift.low,
                        "high": shift.high,
                        "since": _moment(shift.onset),
                    }
                    for shift in alarm.shifts
                ],
            }
            for alarm in alarms
        ],
    }


def _moment(t: int) -> str:
    return datetime.fromtimestamp(t, UTC).isoformat()


def post(webhook: Webhook, content: Mapping[str, Any], *, pause: Callable[[float], object] = time.sleep) -> None:
    """One POST; again after 1 and 2 s where there was no answer, or one that may pass. Raises WebhookError."""
    request = urllib.request.Request(
        webhook.url,
        data=json.dumps(content).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "pgtrial"},
        method="POST",
    )
    opener = make_opener(webhook.url)
    for tried in range(1, TRIES + 1):
        try:
            with opener.open(request, timeout=_PATIENCE):
                return
        except urllib.error.HTTPError as error:
            with error:
                words = f"answers with HTTP {error.code}"
                if error.code not in _PASSING or tried == TRIES:
                    raise _failed(webhook, words, tried) from None
        except (OSError, http.client.HTTPException) as error:
            if tried == TRIES:
                reason = error.reason if isinstance(error, urllib.error.URLError) else error
                raise _failed(webhook, f"cannot be reached ({type(reason).__name__})", tried) from None
        pause(float(tried))


def _failed(webhook: Webhook, words: str, tried: int) -> WebhookError:
    return WebhookError(
        f"the webhook at {webhook.place} {words}: it did not get the alarms",
        detail=f"It was tried {tried} time{'' if tried == 1 else 's'}; the next run tries again.",
        hint=f"Look at {VARIABLE}, or --webhook.",
    )
