"""Draw a key with a certificate that vouches for itself: whoever is given the certificate knows who has the key."""

import datetime
import importlib.util
import secrets
from dataclasses import dataclass, field

from pgtrial.errors import PreflightError

_VALID = datetime.timedelta(days=60)  # an experiment may take weeks, and begins with a new one whenever it goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """Both as PEM."""

    key: str = field(repr=False)
    certificate: str


def require_cryptography() -> None:
    """Raise PreflightError where the package is missing."""
    if importlib.util.find_spec("cryptography") is None:
        raise PreflightError(
            "TLS needs a certificate, and to make it cryptography, which this Python does not have",
            hint="Install it beside pgtrial: pip install 'cryptography>=44'.",
        )


def draw_key_pair(name: str, *, now: datetime.datetime) -> KeyPair:
    """A new one; ``name`` and a random number are its subject. Raises PreflightError without cryptography."""
    require_cryptography()
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} {secrets.token_hex(8)}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks differ
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    return KeyPair(
        key=key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode(
            "ascii"
        ),
        certificate=certificate.public_bytes(encoding).decode("ascii"),
    )
