"""Write the catalogue of PostgreSQL settings that ``pgtrial check`` knows, from a real server.

    python tools/collect_settings.py /usr/lib/postgresql/15/bin src/pgtrial/postgres/catalogue

makes a cluster in a temporary directory, asks it in single-user mode for pg_settings, and writes 15.json: one setting
per line, so that a new minor version shows as a readable difference. As root it runs the server as the user postgres.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

COLUMNS = ("vartype", "unit", "min", "max", "enumvals", "context", "boot")
_QUERY = (
    "SELECT json_agg(json_build_array(name, vartype, unit, min_val, max_val, enumvals, context, boot_val)"
    " ORDER BY name COLLATE \"C\")::text AS settings FROM pg_settings WHERE name NOT LIKE '%.%'"
)
# Values that a build has only with a library or a system it was not collected on. A value that the running server
# lacks is refused by the server itself; one that the catalogue lacks would be refused here without reason.
_OF_OTHER_BUILDS = {
    "default_toast_compression": ("lz4",),
    "wal_compression": ("lz4", "zstd"),
    "io_method": ("io_uring",),
    "recovery_init_sync_method": ("syncfs",),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path, help="directory with initdb and postgres")
    parser.add_argument("catalogue", type=Path, help="directory for the JSON file")
    arguments = parser.parse_args()
    version, rows = collect(arguments.programs.resolve())
    major = re.match(r"\d+", version)
    assert major is not None, version
    path = arguments.catalogue / f"{major[0]}.json"
    path.write_text(render(version, rows), encoding="utf-8")
    print(f"{path}: {len(rows)} settings of PostgreSQL {version}")


def collect(programs: Path) -> tuple[str, list[list[Any]]]:
    """Version as the server says it, and a row per setting."""
    account = "postgres" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="pgtrial-settings-") as work:
        if account is not None:
            os.chown(work, *_ids(account))
        data = f"{work}/data"

        def run(*command: str, text: str = "") -> str:
            return subprocess.run(
                command, input=text, capture_output=True, text=True, check=True, timeout=120, cwd=work, user=account,
                env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
            ).stdout  # fmt: skip

        run(str(programs / "initdb"), "--no-sync", "--username=postgres", "--auth=trust", "--pgdata", data)
        answer = run(str(programs / "postgres"), "--single", "-D", data, "postgres", text=_QUERY + "\n")
        version = run(str(programs / "postgres"), "--version")
    found = re.search(r'settings = "(\[.*\])"', answer, re.DOTALL)
    number = re.search(r"\(PostgreSQL\) (\S+)", version)
    if found is None or number is None:
        raise SystemExit(f"the server's answer is not understood: {answer[:500]}")
    return number[1], json.loads(found[1])


def render(version: str, rows: list[list[Any]]) -> str:
    lines = []
    for name, vartype, unit, low, high, values, context, boot in rows:
        known = [*(values or []), *(v for v in _OF_OTHER_BUILDS.get(name, ()) if v not in (values or []))]
        row = [vartype, unit, low, high, known or None, context, boot]
        lines.append(f"  {json.dumps(name)}: {json.dumps(row, ensure_ascii=False)}")
    head = f'{{"version": {json.dumps(version)}, "columns": {json.dumps(COLUMNS)}, "settings": {{\n'
    return head + ",\n".join(lines) + "\n}}\n"


def _ids(account: str) -> tuple[int, int]:
    import pwd

    entry = pwd.getpwnam(account)
    return entry.pw_uid, entry.pw_gid


if __name__ == "__main__":
    main()
