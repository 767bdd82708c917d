"""A server that is none answers otherwise than it was asked."""

import asyncio
import socket
import struct
import threading
from pathlib import Path

import pytest

from pgtrial.engine.production import write_workload
from pgtrial.errors import TargetError
from pgtrial.hosts.local import LocalHost
from pgtrial.postgres.existing.server import open_server

_SYNC, _TERMINATE = b"S", b"X"


def message(kind: bytes, content: bytes = b"") -> bytes:
    return kind + struct.pack("!I", len(content) + 4) + content


def row(value: bytes) -> bytes:
    """One column of text, whatever was asked for."""
    column = b"x\0" + struct.pack("!IhIhih", 0, 0, 25, -1, -1, 0)
    described = message(b"T", struct.pack("!h", 1) + column)
    return described + message(b"D", struct.pack("!hI", 1, len(value)) + value) + message(b"C", b"SELECT 1\0")


def answer(connection: socket.socket, value: bytes) -> None:
    ready = message(b"Z", b"I")
    with connection, connection.makefile("rb") as file:
        file.read(struct.unpack("!I", file.read(4))[0] - 4)
        told = (b"server_version\x0015.0\0", b"client_encoding\0UTF8\0", b"server_encoding\0UTF8\0")
        connection.sendall(message(b"R", struct.pack("!I", 0)) + b"".join(message(b"S", each) for each in told) + ready)
        while kind := file.read(1):
            file.read(struct.unpack("!I", file.read(4))[0] - 4)
            if kind == _TERMINATE:
                return
            if kind == b"Q":
                connection.sendall(row(value) + ready)
            elif kind == _SYNC:
                connection.sendall(message(b"1") + message(b"2") + row(value) + ready)


@pytest.mark.parametrize("value", [b"17", b"\xff\xfe"])
def test_a_load_is_not_made_of_answers_that_are_none(tmp_path: Path, value: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / ".s.PGSQL.5432"))
        listening.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                answer(connection, value)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        connection = f"host={tmp_path} user=u dbname=d"
        with pytest.raises(TargetError, match="answers otherwise than PostgreSQL does"):
            write_workload(connection, tmp_path / "load", {}, with_values=False)
        with pytest.raises(TargetError, match="answers otherwise than PostgreSQL does"):
            asyncio.run(open_server(LocalHost(), connection, database=None, restart=(), caller={}))
        listening.shutdown(socket.SHUT_RDWR)
        serving.join()

    assert not (tmp_path / "load").exists()
