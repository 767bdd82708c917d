"""The demo on a machine without an installed server."""

import os
import shutil

import pytest


def test_demo_needs_no_installed_server_and_no_open_directory(embedded, place, tmp_path_factory):
    """It finds no installed server, and the wheel in a directory that the server's user cannot enter."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("hiding the installed servers from one command needs root and the program unshare")
    closed = tmp_path_factory.mktemp("closed") / "site"
    closed.mkdir()
    closed.parent.chmod(0o700)
    hide = (
        "for place in /usr/lib/postgresql /usr/pgsql-* /usr/local/pgsql /opt/pgsql*; do"
        ' ! [ -d "$place" ] || mount -t tmpfs tmpfs "$place"; done;'
        f" mount --bind '{embedded.parent}' '{closed}'; exec \"$@\""
    )
    one = str(min(os.sched_getaffinity(0)))  # of the processors: the load takes all that it can get
    result = place.run(
        "demo", "--blocks", "2", "--duration", "1s", "--warmup", "0",
        prefix=("taskset", "--cpu-list", one, "unshare", "--mount", "sh", "-e", "-c", hide, "sh"),
        environment={"PG_CONFIG": "", "PYTHONPATH": str(closed), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )  # fmt: skip

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    facts = dict(folder.query("SELECT name, value FROM fingerprint WHERE run IS NULL"))
    assert facts["PostgreSQL/found by"] == "the embedded servers"
    assert facts["PostgreSQL/version"].startswith("18.")
    assert facts["PostgreSQL/programs"].startswith(f"{folder.work_directories()[0]}/programs/")
    assert [state for _, _, state, _ in folder.runs()] == ["done"] * 6
    folder.assert_nothing_left()
