"""How other machines reach a throw-away server: by TCP, from their addresses alone, with a password nobody knows."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from psycopg import sql

from pgtrial.hosts.base import Account, Host
from pgtrial.hosts.certificate import KeyPair
from pgtrial.postgres.connect import connect

_BYTES = 32  # of a password
_HBA, _KEY, _CERTIFICATE = "pg_hba.conf", "server.key", "server.crt"  # beside the server's configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """The server listens at ``addresses`` of its machine and on a ``port``, for a ``user`` of a ``database`` who comes
    from one of the ``sources``; with a key ``pair`` by TLS, and in no other way.
    """

    port: int
    addresses: tuple[str, ...]
    sources: tuple[str, ...]
    database: str
    user: str
    pair: KeyPair | None = None
    password: str = field(default_factory=lambda: secrets.token_urlsafe(_BYTES), repr=False)

    def settings(self, directory: Path) -> dict[str, str]:
        """What the server is told at its start, when its files are in a ``directory``."""
        encrypted = {
            "ssl": "on",
            "ssl_key_file": str(directory / _KEY),
            "ssl_cert_file": str(directory / _CERTIFICATE),
        }
        return {
            "listen_addresses": ",".join(self.addresses),
            "port": str(self.port),
            "hba_file": str(directory / _HBA),
            "password_encryption": "scram-sha-256",
            **(encrypted if self.pair is not None else {}),
        }

    def write_files(self, host: Host, directory: Path, account: Account | None) -> None:
        """Write what the server reads into a ``directory`` of its host; only its ``account`` reads the key. Raises
        OSError.
        """
        host.ops.put(str(directory / _HBA), self.hba)
        if self.pair is not None:
            owner = None if account is None else (account.uid, account.gid)
            host.ops.put(str(directory / _KEY), self.pair.key, owner, 0o600)
            host.ops.put(str(directory / _CERTIFICATE), self.pair.certificate)

    def write_trust(self, host: Host, directory: Path) -> None:
        """Write what a program on one of the machines knows the server by, into its ``directory``. Raises OSError."""
        if self.pair is not None:
            host.ops.put(str(directory / _CERTIFICATE), self.pair.certificate)

    @property
    def hba(self) -> str:
        """The text of pg_hba.conf. The socket's directory lets only the server's user and root in."""
        lines = ["local all all trust", "local replication all trust"]
        kind = "host" if self.pair is None else "hostssl"
        lines += [f"{kind} {self.database} {self.user} {_alone(source)} scram-sha-256" for source in self.sources]
        return "".join(f"{line}\n" for line in lines)

    def environment(self, address: str, directory: Path) -> dict[str, str]:
        """Variables by which a program on one of the machines, with a ``directory`` there, reaches the server at one of
        its addresses.
        """
        # Whoever has the key is the server, whatever its address: nobody else was given it.
        trusted = {"PGSSLMODE": "verify-ca", "PGSSLROOTCERT": str(directory / _CERTIFICATE)}
        return {
            "PGHOST": address,
            "PGPORT": str(self.port),
            "PGUSER": self.user,
            "PGDATABASE": self.database,
            "PGPASSWORD": self.password,
            **(trusted if self.pair is not None else {"PGSSLMODE": "disable"}),
            "PGREQUIREAUTH": "scram-sha-256",  # of libpq since 16; an older one does not know it
        }

    async def give_password(self, conninfo: str) -> None:
        """Let the user log in with the password, which itself the server never sees. Raises TargetError."""
        async with connect(conninfo) as connection:
            verifier = connection.pgconn.encrypt_password(self.password.encode(), self.user.encode(), b"scram-sha-256")
            statement = sql.SQL("ALTER ROLE {} PASSWORD {}")
            await connection.execute(statement.format(sql.Identifier(self.user), sql.Literal(verifier.decode())))


def _alone(source: str) -> str:
    """An address as a network of one."""
    address = ip_address(source.partition("%")[0])
    return f"{address}/{address.max_prefixlen}"


def are_addresses(texts: Iterable[str]) -> bool:
    """Whether all are IP addresses, as those that come from a host have to be: they go into the server's files."""
    try:
        return all(ip_address(text.partition("%")[0]) for text in texts)
    except ValueError:
        return False
