"""The address of an existing server: a connection string and its environment as libpq resolves them, without secrets.

A service file, PG* variables and .pgpass count, as for psql. libpq itself resolves them once; from then on only
the result counts, so the engine, the sampler, pgbench and a later pgtrial reach the same server.

Which of the caller's passwords a server may be sent: who writes a file may not be who runs it. A server that asks for a
password in plain text has it then, so one on another machine gets only what the caller has for that machine: a line of
the password file with its name, a service, or PGPASSWORD where PGHOST or PGHOSTADDR name it, too. Where the caller has
typed the connection, psql's rules hold.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgtrial.errors import ConnectError, SpecError
from pgtrial.experiment_file.connection import SECRETS, hosts_elsewhere, read_connection, refuse_code
from pgtrial.postgres.connect import APPLICATION, GRANT_CONNECT, NO_CONNECT, NO_PASSWORDS, as_caller
from pgtrial.safe_files import read_file
from pgtrial.safe_text import sql_name

_PORT = "5432"  # where nothing names another
MAINTENANCE = "postgres"  # the database to connect to where nothing names another
_PATIENCE = "10"  # s for a connection, where nothing says otherwise

# Said anew for each connection, used up already (service), or of no use (a replication connection runs no queries).
_NOT_KEPT = (
    *("application_name", "client_encoding", "fallback_application_name"),
    *("replication", "service", "servicefile"),
)
_ALWAYS = ("host", "port", "user", "dbname")  # also where it is the default: other programs may have another one

# Parts of libpq's and the server's words, which for the server's are those of lc_messages = C or English.
_NO_PASSWORD = "no password supplied"
_HINTS = (
    (_NO_PASSWORD, "Put the password into ~/.pgpass, or into a file that PGPASSFILE names."),
    ("password authentication failed", "Correct the password in ~/.pgpass or where else it is."),
    ("definition of service", "The service file is ~/.pg_service.conf, or what PGSERVICEFILE names."),
    ("service file", "The service file is ~/.pg_service.conf, or what PGSERVICEFILE names."),
    ("no pg_hba.conf entry", "Let pg_hba.conf admit this user from this machine."),
    (NO_CONNECT, GRANT_CONNECT),
    ("Peer authentication failed", "Run pgtrial as that operating-system user, or connect over TCP with a password."),
)
_URIS = ("postgresql://", "postgres://")
_HINT = "Try the same connection with psql, and then correct connection in {where}."
WITHHELD = (
    "The file names the host: PGPASSWORD, and a line for all hosts in ~/.pgpass, are not sent there. Put a line with "
    "the host's name into ~/.pgpass, or set PGHOST to it as well."
)
_ALL = "*"
_LONGEST = 1 << 20  # bytes of a password file
_FIRST_FIELD = re.compile(r"((?:[^\\:]|\\.)*):")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Parameters of libpq by name. ``service`` and ``service_file`` say where another process finds a password again.

    ``secrets`` are the passwords that variables or a service file gave, ``password`` the one that was used, also if it
    is from a file that another account may not read; they are in no text of this object. ``places`` are all that the
    connection string may lead to, as it names several hosts, of which one is the server's ``place`` now.
    """

    parameters: Mapping[str, str]
    service: str = ""
    service_file: str = ""
    places: tuple[str, ...] = field(default=(), compare=False)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    password: str = field(default="", repr=False)

    @property
    def user(self) -> str:
        return self.parameters["user"]

    @property
    def database(self) -> str:
        """The one for what concerns no database in particular."""
        return self.parameters["dbname"]

    @property
    def place(self) -> str:
        """As one reads it: "db1:5432", "/var/run/postgresql:5432"."""
        return f"{self.parameters['host']}:{self.parameters['port']}"

    def conninfo(self, database: str | None = None, options: str = "") -> str:
        """A connection string that needs no variables. A password may be in it: only for memory, pipes and libpq.

        ``options`` come after those of the address, and hold where both set the same.
        """
        timeout = {"connect_timeout": _PATIENCE}
        parameters = self._with_options(options)
        return make_conninfo(**{**timeout, **parameters, **self.secrets, "dbname": database or self.database})

    def _with_options(self, options: str) -> Mapping[str, str]:
        whole = " ".join(filter(None, (self.parameters.get("options"), options)))
        return {**self.parameters, "options": whole} if whole else self.parameters

    def environment(self, database: str, options: str = "") -> dict[str, str]:
        """Variables by which programs like pgbench reach a database; others have to be given the name of the database
        as an argument, from PGDATABASE. A password may be among them.

        ``options`` as in ``conninfo``.

        sslpassword, the passphrase of a client's key in a service file, has no variable and cannot be passed on.
        """
        variables = {option.keyword.decode(): option.envvar for option in pq.Conninfo.get_defaults()}
        found, without = {}, {}
        used = {"password": self.password} if self.password else {}
        for name, value in {**self._with_options(options), **used, **self.secrets, "dbname": database}.items():
            variable = variables.get(name)
            if variable:
                found[variable.decode()] = value
            elif name not in SECRETS:
                without[name] = value
        # The database's name may be a whole connection string, and is taken for one where it looks so.
        if without or "=" in database or database.startswith(_URIS):
            found["PGDATABASE"] = make_conninfo(dbname=database, **without)
        return found

    def to_text(self) -> str:
        """For the journal: no password, and no address that a name stands for, which another day may be another."""
        kept = {name: value for name, value in self.parameters.items() if name != "hostaddr"}
        return json.dumps({"parameters": kept, "service": self.service, "service_file": self.service_file})


async def find_server(
    connection: str, *, database: str | None, caller: Mapping[str, str], typed: str = ""
) -> ServerAddress:
    """Connect once to learn what libpq makes of ``connection`` and of the ``caller``'s variables (PGHOST and so on).

    ``database`` is the one to connect to if nothing else names one. ``typed`` says where the caller has typed the text
    himself; else it is the experiment file's. Raises SpecError for a text that is no connection string or holds a
    password, ConnectError when the server cannot be reached; neither quotes a password.
    """
    where = typed or "[target]"
    try:
        given = read_connection(connection)
        _check_reading(given, conninfo_to_dict(connection))
    except (ValueError, psycopg.ProgrammingError) as err:
        # libpq's own words would quote the text, of which a part may be a password.
        reason = str(err) if isinstance(err, ValueError) else "it is not a connection string of libpq"
        raise SpecError(
            f"the connection of {where} cannot be used: {reason.partition(';')[0]}",
            hint='Write "service=bench", "host=db user=me" or "postgresql://me@db"; a password belongs in .pgpass.',
        ) from None
    own = caller if typed else variables_for(given, caller)
    variables = {"PGDATABASE": database or MAINTENANCE, "PGCONNECT_TIMEOUT": _PATIENCE, **own}
    service = given.get("service") or own.get("PGSERVICE", "")
    return await _connect_once(connection, variables, service=service, where=where, withheld=own != dict(caller))


def _check_reading(given: Mapping[str, str], by_libpq: Mapping[str, object]) -> None:
    """ValueError where libpq would execute what nobody was told about."""
    refuse_code(by_libpq)
    if by_libpq.get("options", "") != given.get("options", ""):
        raise ValueError("libpq reads its options in another way")


def find_again(text: str, caller: Mapping[str, str]) -> ServerAddress:
    """The server of a journal's entry (``to_text``), perhaps in another process; it is not connected to.

    Its password comes from where it came then.
    """
    stored = json.loads(text)
    service, service_file = stored["service"], stored["service_file"]
    variables = dict(caller) if service else variables_for(stored["parameters"], caller)
    if service:
        variables["PGSERVICE"] = service
    if service_file:
        variables["PGSERVICEFILE"] = service_file
    with as_caller(variables):
        found = {option.keyword.decode(): (option.val or b"").decode() for option in pq.Conninfo.get_defaults()}
    return ServerAddress(
        parameters=stored["parameters"],
        service=service,
        service_file=service_file,
        secrets={name: found[name] for name in SECRETS if found.get(name)},
    )


async def _connect_once(
    conninfo: str, variables: Mapping[str, str], *, service: str, where: str, withheld: bool
) -> ServerAddress:
    with as_caller(variables):
        try:
            connection = await psycopg.AsyncConnection.connect(conninfo, application_name=APPLICATION)
        except (psycopg.Error, OSError) as err:  # OSError: a host's name that cannot be looked up
            raise _unreachable(err, conninfo, service, where, withheld=withheld) from err
    options = {option.keyword.decode(): option for option in connection.pgconn.info}
    parameters, secrets = {}, {}
    for name, option in options.items():
        value = option.val.decode() if option.val else ""
        if not value or name in _NOT_KEPT or (name, value) == ("connect_timeout", _PATIENCE):
            continue
        if name in SECRETS:
            secrets[name] = value
        elif name in _ALWAYS or option.val != option.compiled:
            parameters[name] = value
    by_variable = {"host": variables.get("PGHOST"), "port": variables.get("PGPORT")}
    places = _places(conninfo_to_dict(conninfo), parameters if service else {}, by_variable)
    # Of a service's lists, that of the server which was found.
    parameters["host"], parameters["port"] = connection.pgconn.host.decode(), connection.pgconn.port.decode()
    parameters.setdefault("dbname", parameters["user"])
    password = connection.pgconn.password.decode() if connection.pgconn.used_password else ""
    await connection.close()
    return ServerAddress(
        parameters=parameters,
        secrets=secrets,
        password=password,
        service=service,
        service_file=variables.get("PGSERVICEFILE", ""),
        places=places,
    )


def _places(*named: Mapping[str, Any]) -> tuple[str, ...]:
    """All that is named, where the first of the mappings that has a host, or a port, counts."""
    hosts, ports = (
        str(next(filter(None, (each.get(name) for each in named)), otherwise)).split(",")
        for name, otherwise in (("host", ""), ("port", _PORT))
    )
    of_each = ports * len(hosts) if len(ports) == 1 else ports
    return tuple(f"{host}:{port or _PORT}" for host, port in zip(hosts, of_each, strict=False) if host)


def _unreachable(err: Exception, conninfo: str, service: str, where: str, *, withheld: bool) -> ConnectError:
    """``conninfo`` holds no password. What libpq takes from elsewhere is known here as far as it can take it."""
    found = {option.keyword.decode(): (option.val or b"").decode() for option in pq.Conninfo.get_defaults()}
    found |= {name: str(value) for name, value in conninfo_to_dict(conninfo).items()}
    host = found.get("host") or found.get("hostaddr") or "the local socket"
    words = " ".join(str(err).split())
    user = found["user"]
    database = found.get("dbname") or user
    return ConnectError(
        f"cannot connect to the server of {where}: host {host}, port {found['port']}, user {user}, "
        f"database {database}{f', service {service}' if service else ''}",
        detail=words,
        hint=WITHHELD
        if withheld and _NO_PASSWORD in words
        else next((hint for part, hint in _HINTS if part in words), _HINT).format(
            where=where, user=sql_name(user), database=sql_name(database)
        ),
    )


def variables_for(given: Mapping[str, str], caller: Mapping[str, str]) -> dict[str, str]:
    """The ``caller``'s variables, without what is not for the hosts that a connection string, ``given`` by its
    parameters, names. Raises SpecError where a service's password would be sent elsewhere.
    """
    hosts = hosts_elsewhere(given)
    if not hosts or hosts <= {caller.get("PGHOST"), caller.get("PGHOSTADDR")}:
        return dict(caller)
    if given.get("service"):
        raise SpecError(
            "the connection of [target] names a service and a host of its own, to which the service's password "
            "would be sent",
            hint="Leave out one of them, or put the host into the service file.",
        )
    kept = {name: value for name, value in caller.items() if name not in ("PGPASSWORD", "PGSERVICE")}
    # With both, the name is looked for in the password file, and the address is connected to.
    misnamed = bool(given.get("host")) and bool(given.get("hostaddr"))
    path = given.get("passfile") or caller.get("PGPASSFILE")
    if misnamed or not _has_lines_for(hosts, Path(path) if path else Path.home() / ".pgpass"):
        if given.get("passfile"):  # counts more than a variable
            raise SpecError(
                "the connection of [target] names a password file, and a host that is not sent what is in it",
                hint=f"Leave out passfile. {WITHHELD}",
            )
        kept["PGPASSFILE"] = NO_PASSWORDS
    return kept


def _has_lines_for(hosts: frozenset[str], path: Path) -> bool:
    """Whether the lines that name a host come before those for all hosts, for each of ``hosts``."""
    try:
        lines = read_file(path, limit=_LONGEST).decode(errors="replace").splitlines()
    except (OSError, ValueError):
        return True  # libpq says what is wrong with it
    fields = [match[1] for line in lines if (match := _FIRST_FIELD.match(line))]
    names = [None if field == _ALL else re.sub(r"\\(.)", r"\1", field) for field in fields]
    return all(next((name for name in names if name in (host, None)), host) == host for host in hosts)
