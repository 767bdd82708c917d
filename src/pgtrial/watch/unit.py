"""A systemd unit that watches: without rights of its own, in little memory, and without a secret in it."""

import sys
from collections.abc import Sequence
from pathlib import Path

from pgtrial.errors import SpecError
from pgtrial.experiment_file.connection import read_connection

_UNIT = """\
# A watch of {what}. Put it to /etc/systemd/system/pgtrial-watch.service, then:
#   install -d -o {user} -m 700 {output}
#   systemctl daemon-reload && systemctl enable --now pgtrial-watch
# Passwords stay where libpq looks for them: in ~/.pgpass of the user below, or in a service file.
[Unit]
Description=pgtrial watch {what}
After=network-online.target postgresql.service
Wants=network-online.target

[Service]
Type=exec
User={user}
ExecStart={command}
Restart=on-failure
RestartSec=10
# What cannot be understood is not understood at the next attempt either.
RestartPreventExitStatus=2
Nice=5
MemoryMax=1G
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths={places} /tmp
PrivateDevices=yes
RestrictSUIDSGID=yes

[Install]
WantedBy=multi-user.target
"""


def unit_text(
    dsns: Sequence[str], output: Path, options: Sequence[str], *, textfiles: Path | None = None, user: str
) -> str:
    """The unit; nothing is connected to. Raises SpecError for a connection string with a password in it."""
    for dsn in dsns:
        try:
            read_connection(dsn)
        except ValueError as err:
            raise SpecError(
                f"the connection of the unit cannot be used: {str(err).partition(';')[0]}",
                hint="Write it without a password, which belongs into ~/.pgpass or a service file.",
            ) from None
    place = str(output.absolute())
    places = [place]
    command = [sys.executable, "-m", "pgtrial", "watch", *dsns, "--output", place, *options]
    if textfiles is not None:
        places.append(str(textfiles.absolute()))
        command += ["--textfile", places[-1]]
    return _UNIT.format(
        what=", ".join(map(_comment, dsns)),
        user=user,
        command=" ".join(map(_word, command)),
        output=_word(place),
        places=" ".join(map(_word, places)),
    )


def _comment(text: str) -> str:
    return text.replace("%", "%%").replace("\n", " ")


def _word(text: str) -> str:
    """As systemd reads it, which knows specifiers (%) and variables ($)."""
    if "\n" in text:
        raise SpecError("a line break cannot stand in a unit", hint="Rename the directory, or write it in one line.")
    escaped = text.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$")
    plain = all(each.isalnum() or each in "/-_.:=@+," for each in text)
    return text if plain else '"' + escaped.replace('"', '\\"') + '"'
