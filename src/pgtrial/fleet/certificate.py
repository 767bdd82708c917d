"""A certificate of an experiment's own: whoever has it takes part, nobody else gets a word in."""

import datetime
import secrets
from dataclasses import dataclass
from pathlib import Path

from pgtrial.safe_files import write_file

_VALID = datetime.timedelta(days=60)  # an experiment may take weeks, and begins with a new one whenever it goes on
_NAME = "pgtrial fleet"


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
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{_NAME} {secrets.token_hex(8)}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks differ
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    made = Certificate(key=directory / "key.pem", certificate=directory / "certificate.pem")
    write_file(
        made.key,
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
    write_file(made.certificate, certificate.public_bytes(serialization.Encoding.PEM))
    return made
