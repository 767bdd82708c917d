"""Time until the report of an experiment of two hours can be read, in Chromium without a network, and its size.

    PYTHONPATH=tests python benchmarks/page.py                     # makes the folder of causes.py first
    PYTHONPATH=tests python benchmarks/page.py results/*/report.html

Each page is opened anew, with nothing in a cache, and the middle one of the times is printed: until its text is there
and answers (the load event), until all charts that can be seen without scrolling are drawn, and until all are.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from causes import write_long
from playwright.sync_api import Browser, sync_playwright

from pgtrial.store import layout

LONGEST, MOST = 2.0, 5_000_000  # s and B that were promised
PATIENCE = 120_000  # ms
# Times in ms; "drawn" comes from a chart as soon as it is there.
WATCH = """
    window.chartTimes = [];
    document.addEventListener("drawn", ({ target }) => {
        const { top } = target.getBoundingClientRect();
        window.chartTimes.push([top < innerHeight, performance.now()]);
    });
"""
TIMES = """
    () => {
        const loaded = performance.getEntriesByType("navigation")[0].loadEventEnd;
        const latest = (charts) => Math.max(loaded, ...charts.map(([, time]) => time));
        return [loaded, latest(window.chartTimes.filter(([isSeen]) => isSeen)), latest(window.chartTimes)];
    }
"""


def open_page(browser: Browser, page: Path) -> tuple[float, float, float]:
    """Seconds until the text, the charts in view, and all charts are there."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, offline=True)
    try:
        tab = context.new_page()
        tab.add_init_script(WATCH)
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-charts=drawn]", state="attached", timeout=PATIENCE)
        loaded, seen, drawn = tab.evaluate(TIMES)
    finally:
        context.close()
    return loaded / 1000, seen / 1000, drawn / 1000


def measure(browser: Browser, page: Path, *, times: int) -> None:
    loaded, seen, drawn = map(statistics.median, zip(*(open_page(browser, page) for _ in range(times)), strict=True))
    print(f"{page}: {page.stat().st_size / 1e6:.2f} MB (promised: {MOST / 1e6:g} MB)")
    print(f"text {loaded:.2f} s, charts in view {seen:.2f} s (promised: {LONGEST:g} s), all charts {drawn:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, help="report.html of experiments")
    parser.add_argument("--times", type=int, default=5, help="how often each is opened (default: 5)")
    options = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        sys.exit("no Chromium on this machine; apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="pgtrial-bench-") as name, sync_playwright() as playwright:
        pages = [page.resolve() for page in options.pages]
        if not pages:
            folder = write_long(Path(name) / "long", seconds=100)
            subprocess.run([sys.executable, "-m", "pgtrial", "report", str(folder)], capture_output=True, check=True)
            pages = [folder / layout.REPORT]
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for page in pages:
            measure(browser, page, times=options.times)
        browser.close()


if __name__ == "__main__":
    main()
