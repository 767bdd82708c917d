"""Whoever has the certificate takes part, and nobody else."""

import importlib.util
import ssl
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pgtrial.fleet.certificate import Certificate, make_certificate
from support.programs import skip_for_want


@pytest.fixture
def certificates(tmp_path) -> tuple[Certificate, Certificate]:
    if importlib.util.find_spec("cryptography") is None:
        skip_for_want("cryptography", "pip install distributed cryptography", required_by="PGTRIAL_REQUIRE_FLEET")
    made = []
    for name in ("own", "stranger"):
        (tmp_path / name).mkdir(mode=0o700)
        made.append(make_certificate(tmp_path / name, now=datetime.now(UTC)))
    return made[0], made[1]


def shake_hands(server: Certificate, client: Certificate, *, trusts: Path) -> None:
    """As dask does: both sides show a certificate. Raises ssl.SSLError where one does not trust the other."""
    contexts = []
    for purpose, own, trusted in (
        (ssl.Purpose.CLIENT_AUTH, server, server.certificate),
        (ssl.Purpose.SERVER_AUTH, client, trusts),
    ):
        context = ssl.create_default_context(purpose, cafile=trusted)
        context.check_hostname, context.verify_mode = False, ssl.CERT_REQUIRED
        context.load_cert_chain(own.certificate, own.key)
        contexts.append(context)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        contexts[0].wrap_bio(to_server, to_client, server_side=True),
        contexts[1].wrap_bio(to_client, to_server),
    ]
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    sides[1].write(b"hello")
    assert sides[0].read(5) == b"hello"


def test_who_has_it_takes_part(certificates):
    own, _ = certificates
    shake_hands(own, own, trusts=own.certificate)


def test_a_stranger_gets_no_word_in(certificates):
    own, stranger = certificates
    with pytest.raises(ssl.SSLError):
        shake_hands(own, stranger, trusts=own.certificate)


def test_a_stranger_who_plays_the_scheduler_is_not_talked_to(certificates):
    own, stranger = certificates
    with pytest.raises(ssl.SSLError):
        shake_hands(stranger, own, trusts=own.certificate)


def test_nobody_else_reads_the_key(certificates):
    assert stat.S_IMODE(certificates[0].key.stat().st_mode) == 0o600
