"""A certificate of an experiment's own: whoever has it takes part, nobody else gets a word in."""

import datetime
from dataclasses import dataclass
from pathlib import Path

from pgtrial.hosts.certificate import draw_key_pair
from pgtrial.safe_files import write_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A key and a certificate that vouches for itself; both are files that only this user reads."""

    key: Path
    certificate: Path


def make_certificate(directory: Path, *, now: datetime.datetime) -> Certificate:
    """Write a new key and its certificate into a directory that only this user enters. Raises OSError.

    Everybody who takes part has the same one, so it is its own authority: the other side of a connection has to show a
    certificate that this one has signed, which only its own key can.
    """
    drawn = draw_key_pair("pgtrial fleet", now=now)
    made = Certificate(key=directory / "key.pem", certificate=directory / "certificate.pem")
    write_file(made.key, drawn.key)
    write_file(made.certificate, drawn.certificate)
    return made
