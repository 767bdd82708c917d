"""Which of the caller's passwords a server may be sent that an experiment file names.

Who writes a file may not be who runs it. A server that asks for a password in plain text has it then, so one on another
machine gets only what the caller has for that machine: a line of the password file with its name, a service, or
PGPASSWORD where PGHOST or PGHOSTADDR name it, too. Where the caller has typed the connection, psql's rules hold.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from pgtrial.errors import SpecError
from pgtrial.experiment_file.connection import hosts_elsewhere
from pgtrial.postgres.connect import NO_PASSWORDS
from pgtrial.safe_files import read_file

WITHHELD = (
    "The file names the host: PGPASSWORD, and a line for all hosts in ~/.pgpass, are not sent there. Put a line with "
    "the host's name into ~/.pgpass, or set PGHOST to it as well."
)
_ALL = "*"
_LONGEST = 1 << 20  # bytes of a password file
_FIRST_FIELD = re.compile(r"((?:[^\\:]|\\.)*):")


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
