import socket
import time
from pathlib import Path

import pytest

from pgtrial.engine.sampler.link import LinkError, ServerLink


def test_server_that_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / ".s.PGSQL.5432"))
        listener.listen()
        link = ServerLink(f"host={tmp_path} port=5432 user=postgres")
        before = time.monotonic()

        with pytest.raises(LinkError, match="no connection in time"):
            link.connect({}, deadline=before + 0.2)

    assert time.monotonic() >= before + 0.2
    assert not link.is_connected


def test_link_that_is_not_connected_has_no_answer(tmp_path: Path) -> None:
    link = ServerLink(f"host={tmp_path}")

    assert link.run("pg_stat_wal", (), deadline=time.monotonic() + 10) is None


def test_server_that_is_not_there_is_an_error_in_its_own_words(tmp_path: Path) -> None:
    link = ServerLink(f"host={tmp_path} port=5432 user=postgres")

    with pytest.raises(LinkError, match=r"No such file or directory"):
        link.connect({}, deadline=time.monotonic() + 10)
