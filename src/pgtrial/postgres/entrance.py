"""How other machines reach a throw-away server: by TCP, from their addresses alone, with a password nobody knows."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address

from psycopg import sql

from pgtrial.postgres.connect import connect

_BYTES = 32  # of a password


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """The server listens at ``addresses`` of its machine and on a ``port``, for a ``user`` of a ``database`` who comes
    from one of the ``sources``.
    """

    port: int
    addresses: tuple[str, ...]
    sources: tuple[str, ...]
    database: str
    user: str
    password: str = field(default_factory=lambda: secrets.token_urlsafe(_BYTES), repr=False)

    def settings(self, hba_file: str) -> dict[str, str]:
        """What the server is told at its start."""
        return {
            "listen_addresses": ",".join(self.addresses),
            "port": str(self.port),
            "hba_file": hba_file,
            "password_encryption": "scram-sha-256",
        }

    @property
    def hba(self) -> str:
        """The text of pg_hba.conf. The socket's directory lets only the server's user and root in."""
        lines = ["local all all trust", "local replication all trust"]
        lines += [f"host {self.database} {self.user} {_alone(source)} scram-sha-256" for source in self.sources]
        return "".join(f"{line}\n" for line in lines)

    def environment(self, address: str) -> dict[str, str]:
        """Variables by which a program on one of the machines reaches the server at one of its addresses."""
        return {
            "PGHOST": address,
            "PGPORT": str(self.port),
            "PGUSER": self.user,
            "PGDATABASE": self.database,
            "PGPASSWORD": self.password,
            "PGSSLMODE": "disable",
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
