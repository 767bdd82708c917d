"""Put a summary into the merge request, in place of the one of an earlier run.

usage: python3 ci/note.py SUMMARY

SUMMARY is the file of "pgtrial run --summary-markdown --history", whose first line says which note is meant. GitLab's
runner gives CI_API_V4_URL, CI_PROJECT_ID and CI_MERGE_REQUEST_IID; PGTRIAL_GITLAB_TOKEN is an access token of the
project (scope api, role Reporter), since the job's own may write no notes. Without a merge request, a token or a
summary there is nothing to do. Only notes of the token's own user are replaced: anybody may write one that begins like
ours, and change it afterwards.
"""

import json
import os
import re
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPMessage
from pathlib import Path
from typing import Any

_MARK = re.compile(r"<!-- pgtrial [A-Za-z0-9_./-]* -->")
_PAGE = 100  # notes, the most that GitLab gives at once
_PATIENCE = 60.0  # s, for one answer


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """The token goes to no other address than the runner's."""

    def redirect_request(self, *_: object) -> None:
        return None


def call(url: str, method: str = "GET", **fields: str) -> tuple[Any, HTTPMessage]:
    """What GitLab answers, and the headers of that."""
    tls = ssl.create_default_context(cafile=os.environ.get("CI_SERVER_TLS_CA_FILE") or None)
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=tls), _NoRedirection)
    headers = {"PRIVATE-TOKEN": os.environ["PGTRIAL_GITLAB_TOKEN"], "Content-Type": "application/json"}
    request = urllib.request.Request(
        url, data=json.dumps(fields).encode() if fields else None, headers=headers, method=method
    )
    with opener.open(request, timeout=_PATIENCE) as answer:
        return json.load(answer), answer.headers


def read_notes(notes: str) -> Iterator[dict[str, Any]]:
    """All of the merge request, oldest first."""
    page = "1"
    while page:
        found, headers = call(f"{notes}?per_page={_PAGE}&page={page}&sort=asc")
        yield from found
        page = headers.get("X-Next-Page", "")


def write_note(api: str, notes: str, text: str) -> str:
    """Replace our note with the same first line, or write one. What was done, in a sentence."""
    mark = text.partition("\n")[0]
    user, _ = call(f"{api}/user")
    for note in read_notes(notes):
        if note["author"]["id"] == user["id"] and note["body"].splitlines()[:1] == [mark]:
            call(f"{notes}/{note['id']}", "PUT", body=text)
            return f"the summary replaces note {note['id']} of the merge request"
    call(notes, "POST", body=text)
    return "the summary is a new note of the merge request"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python3 ci/note.py SUMMARY", file=sys.stderr)
        return 2
    summary, request = Path(arguments[0]), os.environ.get("CI_MERGE_REQUEST_IID", "")
    for is_missing, what in (
        (not request, "this is no pipeline of a merge request"),
        (not os.environ.get("PGTRIAL_GITLAB_TOKEN"), "the variable PGTRIAL_GITLAB_TOKEN is not set"),
        (not summary.is_file(), f'there is no "{summary}"'),
    ):
        if is_missing:
            print(f"no note: {what}")
            return 0
    text = summary.read_text(encoding="utf-8")
    if not _MARK.fullmatch(text.partition("\n")[0]):
        print(f'error: "{summary}" does not begin with the mark of pgtrial', file=sys.stderr)
        return 1
    api = os.environ["CI_API_V4_URL"]
    notes = f"{api}/projects/{os.environ['CI_PROJECT_ID']}/merge_requests/{request}/notes"
    try:
        print(write_note(api, notes, text))
    except (OSError, ValueError, LookupError, TypeError) as error:
        print(f"error: the summary is not in the merge request: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
