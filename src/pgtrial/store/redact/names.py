"""Texts with other names in place of what is to be taken out."""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from pgtrial.store.redact.known import Known, Redaction
from pgtrial.store.redact.patterns import (
    BRACKETS,
    IPV4,
    IPV6,
    MESSAGES,
    NAME_KEYS,
    SECRETS,
    STATEMENTS,
    USERS,
    is_secret_key,
)
from pgtrial.store.server_log.facts import replace_quoted

_HOST, _QUERY, _RELATION, _SECRET = "host", "query", "relation", "secret"
_OWN_RELATIONS = ("pg_", "pgbench_")  # of PostgreSQL and of pgbench, which tell nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What stands for what; the same for the same thing. ``kept`` are names that users gave to arms and the like, which
    stay as they are.
    """

    known: Known
    kept: frozenset[str] = frozenset()
    _given: dict[tuple[str, str], str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def clean(self, text: str, key: str = "") -> str:
        """The text without what is known, and without what looks like it. ``key`` is what it is the value of."""
        kinds = self.known.kinds
        if Redaction.SECRETS in kinds:
            if is_secret_key(key, text):
                return self._name(_SECRET, text)
            for pattern in SECRETS:
                text = pattern.sub(self._without_secret, text)
            text = self._replace(text, _SECRET, self.known.secrets)
        if Redaction.QUERIES in kinds:
            text = self._replace(text, _QUERY, self.known.queries)
            for pattern in STATEMENTS:
                text = pattern.sub(lambda match: match[1] + self._once(_QUERY, match[2].strip()), text)
            text = MESSAGES.sub(lambda match: match[1] + replace_quoted(match[2]), text)
        if Redaction.HOSTS in kinds:
            if key.lower() in NAME_KEYS and text:
                return self._name(_HOST, text.lower())
            text = self._replace(text, _HOST, self.known.hosts, pattern=r"(?<![\w.-]){}(?![\w-])", flags=re.IGNORECASE)
            for form in (IPV6, IPV4):
                text = form.sub(self._without_address, text)
            text = BRACKETS.sub(r"\1", text)
            for form, instead in USERS:
                text = form.sub(instead, text)
        return text

    def query(self, text: str) -> str:
        """What stands for a statement; nothing for nothing."""
        if Redaction.QUERIES not in self.known.kinds:
            return self.clean(text)
        return self._name(_QUERY, text.strip()) if text.strip() else text

    def relation(self, text: str) -> str:
        """What stands for a table or an index, with or without its schema."""
        name = text.rpartition(".")[2]
        if Redaction.QUERIES not in self.known.kinds:
            return self.clean(text)
        return text if not name or name.startswith(_OWN_RELATIONS) else self._name(_RELATION, name)

    def in_names(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the names, which stay as they are, that hold what is replaced elsewhere."""
        found = {each.lower() for each in (*self.known.hosts, *self.known.secrets) if len(each) > 2}
        return tuple(name for name in dict.fromkeys(names) if any(each in name.lower() for each in found))

    def _name(self, kind: str, text: str) -> str:
        found = self._given.get((kind, text))
        if found is None:
            number = self._counts[kind] = self._counts.get(kind, 0) + 1
            found = self._given[kind, text] = f"{kind}{number}"
        return found

    def _once(self, kind: str, text: str) -> str:
        """The same of a text in which something may have been replaced already."""
        is_done = text in self._given.values() and text not in self.known.secrets
        return text if is_done else self._name(kind, text)

    def _replace(self, text: str, kind: str, known: Iterable[str], *, pattern: str = "{}", flags: int = 0) -> str:
        """Each of the known texts by its name; of two that begin at the same place the longer one."""
        lower, kept = text.lower(), {name.lower() for name in self.kept}
        there = (each for each in known if each.lower() in lower and each.lower() not in kept)
        found = sorted(there, key=lambda each: (-len(each), each))
        if not found:
            return text
        form = pattern.replace("{}", f"(?:{'|'.join(map(re.escape, found))})")
        is_same = bool(flags & re.IGNORECASE)
        return re.sub(
            form, lambda match: self._name(kind, match[0].lower() if is_same else match[0]), text, flags=flags
        )

    def _without_secret(self, match: re.Match[str]) -> str:
        start, end = (place - match.start() for place in match.span(1))
        return match[0][:start] + self._once(_SECRET, match[1]) + match[0][end:]

    def _without_address(self, match: re.Match[str]) -> str:
        try:
            address = ipaddress.ip_address(match[0])
        except ValueError:
            return match[0]
        if address.is_loopback or address.is_unspecified:
            return match[0]
        return self._name(_HOST, str(address))
