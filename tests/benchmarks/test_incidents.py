"""benchmarks/incidents.py: its plan, how it judges what a page says, and that incidents are there, and then are not."""

import asyncio
import importlib
import os
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from pgtrial.hosts.linux.control_groups import hierarchies
from pgtrial.hosts.local import LocalHost
from pgtrial.watch.words import Suspicion
from support.programs import skip_for_want

FOLDER = Path(__file__).parents[2] / "benchmarks"
LONGEST = 120.0  # s until an incident is seen
LEFT_BEHIND = """
SELECT concat_ws(', ',
    (SELECT string_agg(name, ', ') FROM pg_file_settings WHERE sourcefile LIKE '%postgresql.auto.conf'),
    (SELECT string_agg(slot_name, ', ') FROM pg_replication_slots),
    (SELECT string_agg(relname, ', ') FROM pg_class
     WHERE relname = 'import' OR relname = 'filler' AND reloptions <> '{}'),
    (SELECT 'bloat' WHERE pg_table_size('product') > 1000000),
    (SELECT 'no index' WHERE to_regclass('event_customer') IS NULL),
    (SELECT string_agg(concat_ws(' ', pid, application_name, state, wait_event, xact_start, query), ', ')
     FROM pg_stat_activity
     WHERE backend_type = 'client backend' AND application_name NOT IN ('shop', 'incident')))
"""


def load(name: str) -> ModuleType:
    sys.path.insert(0, str(FOLDER))  # as Python itself does for `python benchmarks/incidents.py`
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


server, plants, report, incidents = (
    load(name) for name in ("incident_server", "incident_plants", "incident_report", "incidents")
)
ALL = tuple(plants.INCIDENTS)


def test_a_plan_has_each_incident_once_and_is_the_same_each_time() -> None:
    plan = incidents.draw_plan(7)
    assert plan == incidents.draw_plan(7) != incidents.draw_plan(8)
    assert sorted(name for name, _ in plan) == sorted(ALL)
    assert {calm for _, calm in plan} <= set(incidents.CALMS)


@pytest.mark.parametrize("seed", range(20))
def test_half_of_any_plan_has_time_in_105_minutes(seed: int) -> None:
    halves = incidents.draw_plan(seed)[:6], incidents.draw_plan(seed)[6:]
    for half in halves:
        begins = 90 + 60 * (1 + incidents.FIRST_CALM)
        assert begins + sum(incidents.seconds_of(calm) for _, calm in half) + incidents.JUDGING <= 105 * 60


def test_the_load_swings_by_its_share_and_is_the_same_each_time() -> None:
    swing = server.draw_swing(np.random.default_rng([7, 1]))
    rates = [swing.rate(t) for t in range(0, 3 * 3600, 10)]
    assert rates == [server.draw_swing(np.random.default_rng([7, 1])).rate(t) for t in range(0, 3 * 3600, 10)]
    assert np.mean(rates) == pytest.approx(server.RATE, rel=0.1)
    assert min(rates) < (1 - 0.8 * server.SWING) * server.RATE
    assert max(rates) > (1 + 0.8 * server.SWING) * server.RATE
    assert server.STEADY.rate(1e4) == server.RATE


def stretch(planted: str, start: float, end: float, *looks: object, rate: float = 30.0) -> object:
    return report.Stretch(
        planted=planted, start=start, end=end, rate=rate, median=0.002, late=0.02, evidence="7 seen", looks=looks
    )


def look(minutes: int, *named: tuple[Suspicion, str]) -> object:
    codes, texts = tuple(str(code) for code, _ in named), tuple(text for _, text in named)
    return report.Look(minutes=minutes, codes=codes, texts=texts, said=len(named))


LOAD = (Suspicion.LOAD, "There was more to do: more commits.")
HOLDER = (Suspicion.LOCKS, "A lock that is held too long: … last with “UPDATE product SET kind = kind”.")
OTHER_HOLDER = (Suspicion.LOCKS, "A lock that is held too long: … last with “VACUUM”.")
PART = report.Part(
    number=1,
    version="15.1",
    period=1800.0,
    stretches=(
        stretch("", 57.0, 660.2),
        stretch("lock convoy", 717.0, 1080.0, look(2, OTHER_HOLDER), look(3, LOAD, HOLDER), look(5, LOAD, HOLDER)),
        stretch("", 1137.0, 1500.0, look(2, LOAD), look(3)),
        stretch("vacuum", 1557.0, 1920.0, look(2)),
        stretch("", 1977.0, 2340.0, look(2, LOAD), rate=40.0),
    ),
    is_judged=True,
)


def test_whole_minutes_are_compared_with_the_calm_time_before_them() -> None:
    pairs = [(calm.start, each.start, each.window.start, each.window.end) for calm, each in PART.pairs()]
    assert pairs == [
        (57.0, 717.0, 720, 1080),
        (57.0, 1137.0, 1140, 1500),
        (1137.0, 1557.0, 1560, 1920),
        (1137.0, 1977.0, 1980, 2340),
    ]


def test_an_incident_is_named_by_its_code_and_its_word() -> None:
    looks = PART.stretches[1].looks
    assert [report.place_of("lock convoy", each) for each in looks] == [None, 2, 2]


def test_more_load_is_pointed_to_rightly_only_where_more_came() -> None:
    wrong = [report.wrong_in_calm(calm, each, each.looks[0]) for calm, each in PART.pairs() if not each.planted]
    assert wrong == [("load",), ()]


def test_what_is_told_follows_from_what_is_kept(tmp_path: Path) -> None:
    report.write(report.Series(seed=7), tmp_path)
    report.write(PART, tmp_path)
    series = report.read_series(tmp_path)
    assert series.parts == (PART,)
    told = report.render(series)
    assert "2 of 12 incidents" in told
    assert "| lock convoy | 7 seen | yes, 2 of 2 | 3 min 3 s | load | 2 ms → 2 ms |" in told
    assert "| vacuum | 7 seen | **no** | – | – (nothing differed) | 2 ms → 2 ms |" in told
    assert "something wrong in 0 of 2 (1 of 3 looks" in told
    left = series.remaining(incidents.draw_plan(7))
    assert sorted(name for name, _ in left) == sorted(set(ALL) - {"lock convoy", "vacuum"})


def test_what_is_not_judged_is_not_told() -> None:
    unjudged = report.Series(seed=7, parts=(PART.unjudged(),))
    assert report.render(unjudged) == report.render(report.Series(seed=7))


def test_the_page_has_the_table_of_the_results_that_are_kept(tmp_path: Path) -> None:
    page, kept = tmp_path / "watch.md", tmp_path / "incidents.json"
    page.write_text(report.PAGE.read_text())
    report.publish(report.read_kept(), kept=kept, page=page)
    assert page.read_text() == report.PAGE.read_text()
    series = report.Series(seed=7, parts=(PART,))
    report.publish(series, kept=kept, page=page)
    assert report.read_kept(kept) == series
    assert "| lock convoy | 7 seen | yes, 2 of 2 |" in page.read_text()


def test_a_new_folder_goes_on_with_an_unfinished_series_that_is_kept(tmp_path: Path) -> None:
    kept, page = tmp_path / "incidents.json", tmp_path / "watch.md"
    page.write_text(report.PAGE.read_text())
    series = report.Series(seed=7, parts=(PART,))
    report.publish(series, kept=kept, page=page)
    assert incidents.begin_or_go_on(tmp_path / "a", None, kept=kept) == series
    assert incidents.begin_or_go_on(tmp_path / "b", 7, kept=kept) == series
    assert incidents.begin_or_go_on(tmp_path / "c", 8, kept=kept) == report.Series(seed=8)

    stretches = tuple(replace(PART.stretches[1], planted=name) for name in ALL)
    report.publish(report.Series(seed=7, parts=(replace(PART, stretches=stretches),)), kept=kept, page=page)
    assert incidents.begin_or_go_on(tmp_path / "d", 9, kept=kept) == report.Series(seed=9)
    assert not incidents.begin_or_go_on(tmp_path / "e", None, kept=kept).parts


def can_limit_disks() -> bool:
    blkio = [each for each in hierarchies(LocalHost().ops) if each.version == 1 and "blkio" in each.controllers]
    return bool(blkio) and os.geteuid() == 0


@pytest.mark.pg
def test_each_incident_is_seen_and_leaves_nothing_behind() -> None:
    names = [name for name in ALL if name != "IOPS limit"]  # it needs root, and has a test of its own

    async def plant() -> tuple[dict[str, str], dict[str, str]]:
        seen, left = {}, {}
        async with server.watched_server("test", None, None, settle=0.0) as here:

            async def look_for(name: str) -> str:
                left[name] = await here.ask(LEFT_BEHIND)
                return "" if left[name] else "undone"

            for name in names:
                async with plants.INCIDENTS[name].plant(here) as see:
                    seen[name] = await incidents.see(see, time.time() + LONGEST)
                await incidents.see(partial(look_for, name), time.time() + LONGEST)
            assert here.load.done
        return seen, left

    seen, left = asyncio.run(plant())
    assert [name for name in names if not seen[name]] == []
    assert left == dict.fromkeys(names, "")


@pytest.mark.pg
def test_a_disk_that_is_limited_is_free_again_when_the_task_is_cancelled() -> None:
    if not can_limit_disks():
        skip_for_want("the controller blkio of control groups version 1", "run as root, with it mounted")
    group = next(Path(each.mount, plants.GROUP) for each in hierarchies(LocalHost().ops) if "blkio" in each.controllers)

    async def plant() -> str:
        async with server.watched_server("test", None, None, settle=0.0) as here:
            is_seen = asyncio.Event()
            seen = []

            async def stay() -> None:
                async with plants.INCIDENTS["IOPS limit"].plant(here) as see:
                    seen.append(await incidents.see(see, time.time() + LONGEST))
                    assert group.exists()
                    is_seen.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(stay())
            await asyncio.wait([task, asyncio.create_task(is_seen.wait())], return_when=asyncio.FIRST_COMPLETED)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await here.send("UPDATE product SET stock = stock WHERE id = 2000")  # it goes on
        return str(seen[0])

    assert "a commit takes" in asyncio.run(plant())
    assert not group.exists()


def test_a_time_of_a_part_that_has_no_transactions_can_be_kept(tmp_path: Path) -> None:
    silent = replace(PART.stretches[0], rate=0.0, median=None, late=None)
    report.write(replace(PART, stretches=(silent, *PART.stretches[1:])), tmp_path)
    report.write(report.Series(seed=7), tmp_path)
    assert "– → 2 ms" in report.render(report.read_series(tmp_path))


@pytest.mark.parametrize("code", [None, 0, 1])
def test_a_time_that_was_not_watched_is_not_kept(code: int | None) -> None:
    load = server.Load("", server.STEADY, np.random.default_rng(0))
    watched = SimpleNamespace(load=load, watch=SimpleNamespace(returncode=code))
    watched.check_watch = lambda: server.WatchedServer.check_watch(watched)
    if code is None:
        assert incidents._stretch(watched, "", 0.0).planted == ""
    else:
        with pytest.raises(RuntimeError, match=f"exit code {code}"):
            incidents._stretch(watched, "", 0.0)
