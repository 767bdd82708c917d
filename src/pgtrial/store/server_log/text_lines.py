"""Log as text (log_destination = stderr), whose lines begin with log_line_prefix."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo

from pgtrial.store.server_log.entry import LogEntry
from pgtrial.store.server_log.language import PLAIN, Language
from pgtrial.store.server_log.prefix import prefix_pattern
from pgtrial.store.server_log.times import parse_time

_UNKNOWN = "[unknown]"  # of a session that has not said its name yet
_PARTS: Mapping[str, str] = {"DETAIL:": "detail", "STATEMENT:": "statement"}


@dataclass(slots=True, kw_only=True)
class _Message:
    """A message whose lines are still being read."""

    head: Mapping[str, str]
    severity: str
    sqlstate: str
    parts: dict[str, list[str]] = field(default_factory=dict)

    def add(self, part: str, line: str) -> None:
        self.parts.setdefault(part, []).append(line)

    def entry(self, zone: tzinfo | None) -> LogEntry | None:
        t = _time(self.head, zone)
        if t is None:
            return None
        pid = self.head.get("pid", "")
        texts = {name: "\n".join(self.parts.get(name, ())) for name in ("message", "detail", "statement")}
        return LogEntry(
            t=t,
            pid=int(pid) if pid else None,
            severity=self.severity,
            sqlstate=self.sqlstate or self.head.get("sqlstate", ""),
            database=_known(self.head.get("database", "")),
            application=_known(self.head.get("application", "")),
            backend_type=self.head.get("backend_type", "").strip(),
            **texts,
        )


def parse_text(
    lines: Iterable[str],
    *,
    prefix: str,
    zone: tzinfo | None,
    verbose: bool = False,
    language: Language = PLAIN,
) -> Iterator[LogEntry]:
    """Entries of a log whose lines begin with ``prefix`` (log_line_prefix), in the order of the log.

    ``zone`` is log_timezone, ``verbose`` says that log_error_verbosity is verbose. Lines that are no message's, such as
    those of an archive command, are left out, and so are messages without a time.
    """
    known = _beginning(prefix, _any_of(language.severities), verbose=verbose, language=language)
    # A single word of an unknown language is taken for a severity. Tried last: an application's name has words too.
    unknown = _beginning(prefix, r"[^\W\d_]+", verbose=verbose, language=language)
    message: _Message | None = None
    part = ""
    for line in lines:
        if line.startswith("\t") and message is not None:  # the server begins further lines of a text with it
            message.add(part, line[1:])
            continue
        part = ""
        match = known.match(line) or unknown.match(line)
        if match is None:
            continue
        head = {name: text for name, text in match.groupdict().items() if text is not None}
        if label := head.get("label"):
            if message is not None and message.head.get("pid") == head.get("pid"):
                part = _PARTS.get(language.labels[label], "")
                message.add(part, head["text"])
            continue
        if message is not None and (entry := message.entry(zone)):
            yield entry
        message = _Message(
            head=head,
            severity=language.severity(head["severity"]),
            sqlstate=head.get("state", ""),
        )
        part = "message"
        message.add(part, head["message"])
    if message is not None and (entry := message.entry(zone)):
        yield entry


def _beginning(prefix: str, severities: str, *, verbose: bool, language: Language) -> re.Pattern[str]:
    """Pattern of a line with the prefix: of a message, or of what belongs to the one before."""
    state = r"(?:(?P<state>[0-9A-Z]{5}): )?" if verbose else ""
    return re.compile(
        rf"{prefix_pattern(prefix)}(?:(?P<label>{_any_of(language.labels)})[ \t]*(?P<text>.*)"
        rf"|(?P<severity>{severities}):  {state}(?P<message>.*))",
        re.DOTALL,
    )


def _any_of(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def _time(head: Mapping[str, str], zone: tzinfo | None) -> float | None:
    if "epoch" in head:
        return float(head["epoch"])
    return parse_time(head.get("time_ms") or head.get("time") or "", zone)


def _known(name: str) -> str:
    name = name.strip()
    return "" if name == _UNKNOWN else name
