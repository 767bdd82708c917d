"""Find secrets, host names and statements in texts, and replace them.

A redacted text is replaced by a name, the same one for the same text in every file: "host1", "query7". Texts that
differed still differ, and the analysis of the copy finds the same. docs/export.md says what is replaced. Texts are also
the strings in JSON and TOML data, each with its key.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pgtrial.safe_text import SECRETS, parse_json
from pgtrial.store.server_log.facts import replace_quoted

# Settings of PostgreSQL, and keys of other tables, whose values are or may be secrets. Commands have them as arguments.
_SECRET_KEY = re.compile(
    r"(?i)(password|passwd|passphrase|secret|token|credential|api_?key|private_?key)|_command$|conninfo$"
)
_NO_SECRET_KEYS = ("password_encryption",)
_NO_SECRETS = ("", "(disabled)")  # what a command that is not set shows
HOST_KEYS = ("host", "hostaddr", "hostname", "listen_addresses", "bonjour_name", "remote_host")
NAME_KEYS = ("bonjour_name", "cluster_name")  # settings whose whole value is a name

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"
_NAME = rf"{_LABEL}(?:\.{_LABEL})*"
NAME = re.compile(rf"(?=.*[A-Za-z]){_NAME}")
# The group is a name, or several with commas between them.
HOSTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:host|hostaddr|hostname|remote_host)\s*=\s*[\"']?({_NAME}(?:,{_NAME})*)",
        rf"\b[a-z][a-z0-9+.-]*://(?:[^/@\s]*@)?({_NAME})(?![^/\s]*@)",
        rf"\b(?:host|host name|hostname|server at|resolve)\s+[\"“«']({_NAME})[\"”»']",
        rf"\b[\w.+-]+@({_NAME})",
        rf"\A({_NAME}):/(?!/)",  # a file system of the network
    )
)
# Names that tell nothing, and words that stand where a name of a host could.
NO_HOSTS = frozenset(
    {
        "localhost",
        "localhost.localdomain",
        "ip6-localhost",
        "all",
        "on",
        "off",
        "yes",
        "no",
        "true",
        "false",
        "none",
        "null",
    }
)
IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)")
IPV6 = re.compile(
    r"(?<![\w:.])(?:[0-9a-f]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9a-f]{1,4})?(?![\w:])", re.IGNORECASE
)
BRACKETS = re.compile(r"\[(host\d+)\]")  # a name has none, as an IPv6 address had
USERS = (
    (re.compile(r"(://)[^/@\s:'\"]+(?=(?::[^/@\s]*)?@)"), r"\1user"),
    (re.compile(r"\b(user\s*=\s*)(?:'[^']*'|\"[^\"]*\"|[^\s'&\"]+)"), r"\1user"),
    (re.compile(r"(?<![\w.+:-])[\w.+-]+(?=@host\d)"), "user"),
    (re.compile(r"(/home/|/Users/)[^/\s'\"]+"), r"\1user"),
)
# The second group is, or quotes, a statement.
STATEMENTS = (
    re.compile(r"(\bLINE \d+: )([^\n]+(?:\n *\^)?)"),
    re.compile(r"(\b(?:STATEMENT|statement|QUERY|query|Query was|CONTEXT|execute [^:\n]{1,60}): +)([^\n]+)"),
)
MESSAGES = re.compile(r"(\b(?:ERROR|FATAL|PANIC|DETAIL): +)([^\n]+)")  # of a server, which quote names and values
_SHORTEST_SECRET, _SHORTEST_QUERY = 6, 8  # characters, of what is replaced wherever it stands
_HOST, _QUERY, _RELATION, _SECRET = "host", "query", "relation", "secret"
_OWN_RELATIONS = ("pg_", "pgbench_")  # of PostgreSQL and of pgbench, which tell nothing


def is_secret_key(key: str, value: str) -> bool:
    """Whether what is called so is to be taken for a secret as a whole."""
    return key.lower() not in _NO_SECRET_KEYS and value not in _NO_SECRETS and _SECRET_KEY.search(key) is not None


def host_names(text: str) -> tuple[str, ...]:
    """A host name and, if it has dots, its first part; () if the text is not a host name. Addresses are recognised by
    their form.
    """
    whole = text.strip().strip("[]").rstrip(".").lower()
    parts = dict.fromkeys((whole, whole.partition(".")[0]))
    return tuple(each for each in parts if len(each) > 1 and NAME.fullmatch(each) and each not in NO_HOSTS)


class Redaction(StrEnum):
    """``secrets``: passwords, keys, and settings that hold commands or connection strings. ``hosts``: names and
    addresses of machines, and log-in names. ``queries``: texts of statements, and names of tables.
    """

    SECRETS = "secrets"
    HOSTS = "hosts"
    QUERIES = "queries"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateNames:
    """What was found so far; the names of hosts are in lower case."""

    kinds: frozenset[Redaction]
    secrets: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    queries: set[str] = field(default_factory=set)

    def learn(self, text: str, key: str = "") -> None:
        """Secrets and hosts that a text gives away, by what stands around them or by the key whose value it is."""
        if Redaction.SECRETS in self.kinds:
            if is_secret_key(key, text):
                self.learn_secret(text)
            for pattern in SECRETS:
                for found in pattern.findall(text):
                    self.learn_secret(found)
        if Redaction.HOSTS in self.kinds:
            if key.lower() in HOST_KEYS:
                self.learn_hosts(text.split(","))
            for pattern in HOSTS:
                for found in pattern.findall(text):
                    self.learn_hosts(found.split(","))

    def learn_secret(self, text: str) -> None:
        if len(text) >= _SHORTEST_SECRET:
            self.secrets.add(text)

    def learn_hosts(self, names: Iterable[str]) -> None:
        if Redaction.HOSTS in self.kinds:
            self.hosts.update(each for name in names for each in host_names(name))

    def learn_query(self, text: str) -> None:
        """A statement and each of its lines, for messages quote lines."""
        if Redaction.QUERIES in self.kinds:
            parts = (part.strip() for part in (text, *text.splitlines()))
            self.queries.update(part for part in parts if len(part) >= _SHORTEST_QUERY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What stands for what; the same for the same thing. ``kept`` are names that users gave to arms and the like, which
    stay as they are.
    """

    known: PrivateNames
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


def strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """(key, text) of every string, in order; elements of a list have the key of the list."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from strings(item, str(name))
    elif isinstance(value, list):
        for item in value:
            yield from strings(item, key)


def lists(value: Any) -> Iterator[list[str]]:
    """Every list of strings, such as a command with its arguments."""
    if isinstance(value, dict):
        for item in value.values():
            yield from lists(item)
    elif isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            yield value
        for item in value:
            yield from lists(item)


def with_strings(value: Any, change: Callable[[str, str], str], key: str = "") -> Any:
    """The same with every string replaced by ``change(text, key)``; keys stay."""
    if isinstance(value, str):
        return change(value, key)
    if isinstance(value, dict):
        return {name: with_strings(item, change, str(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [with_strings(item, change, key) for item in value]
    return value


def parse_tree(text: str) -> Any:
    """An object or a list; None where the text is neither."""
    if text[:1] not in ("{", "["):
        return None
    try:
        return parse_json(text)
    except ValueError:
        return None
