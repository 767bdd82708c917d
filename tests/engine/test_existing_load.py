"""Which programs make the data on a server that was there before."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgtrial.engine.target import existing
from pgtrial.hosts.base import Account


@pytest.mark.parametrize(("load", "programs"), [((), "root's"), (("shop.sql",), "a copy for postgres")])
def test_programs_are_copied_for_the_account_where_it_loads_files(
    monkeypatch: pytest.MonkeyPatch, load: tuple[str, ...], programs: str
) -> None:
    made: list[Any] = []

    async def make_data(*_what: object, **_how: object) -> None:
        return None

    async def executable_client(_client: object, account: Account, _belongings: object, *, here: object) -> str:
        return f"a copy for {account.name}"

    def loader(**what: object) -> SimpleNamespace:
        made.append(what["programs"])
        return SimpleNamespace(make_data=make_data)

    account = Account(uid=70, gid=70, name="postgres")
    monkeypatch.setattr(existing, "server_account", lambda _ops: account)
    monkeypatch.setattr(existing, "executable_client", executable_client)
    monkeypatch.setattr(existing, "Loader", loader)
    server = SimpleNamespace(conninfo=str, environment=lambda _name: {})
    target: Any = SimpleNamespace(
        experiment=SimpleNamespace(dataset=SimpleNamespace(kind="pgbench", scale=1, load=load)),
        prepared="pgtrial_data",
        here=SimpleNamespace(ops=None),
        client="root's",
        server=server,
        create_prepared=None,
    )
    task: Any = SimpleNamespace(belongings=None, scripts=Path(), state=None, may_run=False, tell=None)

    asyncio.run(existing._load(target, task))

    assert made == [programs]
