"""What is to be taken out of a result folder, as far as it is known by name: looked for before anything is replaced."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from pgtrial.store.redact.patterns import HOST_KEYS, HOSTS, SECRETS, host_names, is_secret_key


class Redaction(StrEnum):
    """``secrets``: passwords, keys, and settings that hold commands or connection strings. ``hosts``: names and
    addresses of machines, and log-in names. ``queries``: texts of statements, and names of tables.
    """

    SECRETS = "secrets"
    HOSTS = "hosts"
    QUERIES = "queries"


_SHORTEST_SECRET, _SHORTEST_QUERY = 6, 8  # characters, of what is replaced wherever it stands


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
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
