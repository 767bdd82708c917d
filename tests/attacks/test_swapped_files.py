"""Files of somebody else's that root reads or makes: what they turn into, at the worst moment, is neither told nor
touched.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgtrial.errors import PreflightError, SettingError
from pgtrial.hosts.base import Account
from pgtrial.hosts.local import LocalHost
from pgtrial.knobs import filesystem_image
from pgtrial.postgres.existing.server import ServerControl, read_auto_conf
from pgtrial.postgres.throwaway import ThrowawayCluster
from support.loading import empty_database, load

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root reads and makes what others cannot")
NOBODY = 65534
PRECIOUS = "precious\n"


@pytest.fixture
def place(storage: Path) -> Iterator[Path]:
    """A directory of root's with a secret, and one of a neighbour's with a file."""
    place = storage / f"pgtrial-attack-swapped-{os.getpid()}"
    place.mkdir(mode=0o755)
    (place / "secret").write_text(PRECIOUS)
    (place / "secret").chmod(0o600)
    theirs = place / "theirs"
    theirs.mkdir()
    (theirs / "data.sql").write_text("SELECT 1;\n")
    for path in (theirs, theirs / "data.sql"):
        os.chown(path, NOBODY, NOBODY)
    yield place
    shutil.rmtree(place)


class SwappingHost(LocalHost):
    """The neighbour puts a link in the place of a file between its reading and its copying, and looks at what is made
    as the account may.
    """

    def __init__(self, theirs: Path, secret: Path, account: Account | None) -> None:
        super().__init__()
        assert account is not None
        self.theirs, self.secret, self.account = theirs, secret, account
        self.seen: list[str] = []

    async def run(self, argv: Any, **options: Any) -> Any:
        is_copying = argv[0] == "cp"
        if is_copying:
            self.theirs.unlink()
            self.theirs.symlink_to(self.secret)
        completed = await super().run(argv, **options)
        if is_copying:
            look = [
                "setpriv",
                f"--reuid={self.account.uid}",
                f"--regid={self.account.gid}",
                "--clear-groups",
                "cat",
                argv[-1],
            ]
            self.seen.append(subprocess.run(look, capture_output=True, text=True, check=False).stdout)
        return completed


@pytest.mark.pg
def test_data_that_become_a_link_while_they_are_copied_are_not_given_to_the_account(
    served: ThrowawayCluster, place: Path
) -> None:
    host = SwappingHost(place / "theirs/data.sql", place / "secret", served.account)

    with empty_database(served), pytest.raises(PreflightError, match="is not as it was when the experiment was begun"):
        load(served, place / "theirs", "data.sql", host=host)

    assert host.seen == [""]
    assert list(served.directory.parent.glob("pgtrial-*/data.sql")) == []
    assert (place / "secret").stat().st_mode & 0o777 == 0o600


def test_a_link_in_place_of_a_servers_configuration_is_read_if_it_leads_to_a_file_of_the_servers(place: Path) -> None:
    control = ServerControl(host=LocalHost(), address=cast(Any, None), restart_command=(), variables={})
    link = place / "theirs/postgresql.auto.conf"
    link.symlink_to(place / "theirs/data.sql")

    assert asyncio.run(read_auto_conf(control, str(link))) == b"SELECT 1;\n"

    link.unlink()
    link.symlink_to(place / "secret")
    with pytest.raises(PermissionError):
        asyncio.run(read_auto_conf(control, str(link)))


@pytest.mark.parametrize("kind", ["owned", "writable"])
def test_no_file_system_is_made_where_others_may_put_links(place: Path, kind: str) -> None:
    directory = place / "theirs"
    if kind == "writable":
        os.chown(directory, 0, 0)
        directory.chmod(0o777)
    context = cast(Any, SimpleNamespace(host=LocalHost(), directory=str(directory), token="t"))

    with pytest.raises(SettingError, match=r'root does not write into ".*": others may change ".*/theirs"'):
        filesystem_image.plan(context, {"type": "ext4", "size": "64MB"})
