"""The pages of docs/gallery: what they show of a simulated result, and that those in the repository are current."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gallery import charts, entries, kept, pages, published, results, translated
from pgtrial.analysis.analyze import analyze
from pgtrial.findings.causes import WEIGHTED
from pgtrial.findings.caveat import caveat
from pgtrial.findings.findings import Engagement, Fact, Findings
from pgtrial.findings.message import say, verbatim
from pgtrial.findings.record import Estimate
from pgtrial.model.verdict import Verdict
from pgtrial.report.cause_words import causes_of
from pgtrial.report.charts.base import Chart, wrap_spec
from pgtrial.report.markdown import escape
from pgtrial.store import layout
from support import EXPERIMENT, detailed_simulation, write_result_folder

ROOT = Path(__file__).parents[2]
LARGEST_IN_ALL = 6_000_000  # bytes of all images in the repository
LARGEST_KEPT = 1_000_000  # bytes that are kept of one result


ENTRIES = {entry.name: entry for entry in entries.read_entries()}
ENTRY = replace(ENTRIES["a1-cache-against-work-mem"], charts=entries.CHARTS)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """What is concluded of a simulated experiment with two load levels, a placebo and all samples."""
    text = EXPERIMENT.replace("clients = 4", "clients = [4, 16]")
    folder = write_result_folder(tmp_path_factory.mktemp("gallery") / "r", text=text, simulation=detailed_simulation())
    return analyze(folder)


@pytest.fixture(scope="module")
def page(found: Findings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pages.write_page(ENTRY, found, tmp_path_factory.mktemp("pages"))


def test_every_kind_of_chart_can_be_drawn():
    assert tuple(charts.DRAWN) == entries.CHARTS


def test_images_are_whole_small_and_of_their_own_colours(page):
    images = sorted((page.parent / "images").iterdir())

    assert {image.name.split(".")[1] for image in images} >= {"effects", "blocks", "curve"}
    for image in images:
        text = image.read_text()
        assert ElementTree.fromstring(text).tag.endswith("svg")
        assert "currentColor" not in text
        assert "var(" not in text
        assert len(text.encode()) <= charts.LARGEST


def test_a_legend_stands_above_its_picture():
    spec = wrap_spec({"data": {"values": [{"x": 1}]}, "mark": "point"}, height=50)
    bare = charts.draw(Chart(title="t", text="t", spec=spec))
    legend = (("#0072B2", "a <b>"), ("currentColor", "x" * 80), ("#D55E00", "y" * 80))

    drawn = ElementTree.fromstring(charts.draw(Chart(title="t", text="t", spec=spec, legend=legend)))

    squares = [each for each in drawn.iter("{http://www.w3.org/2000/svg}rect") if each.get("width") == "10"]
    assert [square.get("fill") for square in squares] == ["#0072B2", charts.INK, "#D55E00"]
    assert [square.get("y") for square in squares] == ["6", "6", "26"]
    names = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert names[0] == "a <b>"
    height = float(ElementTree.fromstring(bare).get("height", "0"))
    assert float(drawn.get("height", "0")) == pytest.approx(height + 40)
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}svg"))) == 2


def test_a_picture_that_is_too_large_is_left_out(found, monkeypatch):
    monkeypatch.setattr(charts, "LARGEST", 10)

    assert charts.draw_charts(found, ("effects",)) == []


def test_a_page_shows_question_answer_file_and_context(page):
    text = page.read_text()

    assert text.startswith(f"# {ENTRY.title}\n")
    assert ENTRY.question in text
    assert ENTRY.context in text
    assert ENTRY.quick.read_text().rstrip() in text
    assert "sudo .venv/bin/pgtrial run examples/gallery/a1-cache-against-work-mem/quick.toml --allow-host" in text
    assert "[full.toml](" in text
    result = pages.read_result(page)
    assert result.startswith("**✔ supported** – off is ")
    assert "Claim: Without waiting for the disk at commit, throughput is higher." in result
    assert re.search(r"^\| off +\| all load levels \|", result, re.MULTILINE)
    assert re.search(r"^\| placebo +\| 16 clients ", result, re.MULTILINE)
    assert "The arms side by side, 16 clients:" in result
    assert "| throughput " in result
    assert result.endswith("*")
    assert "2 CPUs" in result.splitlines()[-1]
    assert "Linux 6.1 " in result.splitlines()[-1]


def test_what_is_said_of_a_disk_is_said_once(found, page):
    sizes = [say(use.size.text) for use in causes_of(found).disks if use.size is not None]

    assert sizes
    for text in sizes:
        told = sum(say(use.text).count(text) for use in causes_of(found).disks)
        assert pages.read_result(page).count(escape(text)) == told


def test_every_image_of_a_page_is_there_and_has_a_text(page):
    shown = re.findall(r"^!\[(.+)\]\((images/[^)]+\.svg)\)$", page.read_text(), re.MULTILINE)

    assert {path for _, path in shown} == {f"images/{image.name}" for image in (page.parent / "images").iterdir()}
    assert len(shown) == page.read_text().count("![")


def test_a_page_keeps_its_result_until_there_is_a_new_one(page, found, tmp_path):
    copy = tmp_path / page.name
    copy.write_text(page.read_text().replace("## How to read it", "## Old"))

    pages.write_page(ENTRY, None, tmp_path)

    assert copy.read_text() == page.read_text()
    pages.write_page(ENTRY, found, tmp_path)
    assert copy.read_text() == page.read_text()


def test_a_page_is_made_again_without_a_run_after_a_change_of_words(found, tmp_path, monkeypatch):
    path = pages.write_page(ENTRY, found, tmp_path)
    monkeypatch.setattr(results, "effect_word", lambda findings, effect: "not worse")

    pages.write_page(replace(ENTRY, charts=("effects",), reading="Other words."), None, tmp_path)

    assert "| not worse |" in pages.read_result(path)
    assert "Other words." in path.read_text()
    assert re.findall(r"\((images/[^)]+)\)", path.read_text()) == [f"images/{ENTRY.name}.effects.svg"]
    assert [image.name for image in (tmp_path / "images").iterdir()] == [f"{ENTRY.name}.effects.svg"]


def test_figures_are_found_again_in_what_is_kept_of_a_result(found, tmp_path):
    speed = published.read_published([{"what": "speed", "metric": "pgbench.tps", "arm": "off", "change": [0.5]}])
    waits = published.read_published([{"what": "waiting", "metric": "vmstat.wa", "arm": "on", "value": [0.5]}])
    pages.write_page(replace(ENTRY, published=speed, bottleneck=()), found, tmp_path)

    pages.write_page(replace(ENTRY, published=speed, bottleneck=waits), None, tmp_path)

    figures = pages.figures_of(ENTRY, tmp_path)
    assert {key: figures[key] for key in (speed[0].key, waits[0].key)} == {
        speed[0].key: published.find_here(found, speed[0]),
        waits[0].key: published.find_here(found, waits[0]),
    }


def test_what_is_kept_of_a_result_shows_all_that_the_whole_shows(found):
    extract = kept.extract_findings(found)

    assert pages.render_result(extract, []) == pages.render_result(found, [])
    drawn = charts.draw_charts(extract, entries.CHARTS)
    assert [picture.name for picture in drawn] == [
        picture.name for picture in charts.draw_charts(found, entries.CHARTS)
    ]


def test_what_is_kept_of_a_result_is_small_and_names_no_machine(found, tmp_path):
    secret = Fact(group="machine", name="host", value="db.example.org")
    fingerprint = found.fingerprint.model_copy(update={"facts": (*found.fingerprint.facts, secret)})

    target = {**found.experiment.target, "data directory": "/srv/data", "found by": "/srv/programs"}
    experiment = found.experiment.model_copy(update={"target": target})
    runs = tuple(run.model_copy(update={"reason": "no room in /srv/spool"}) for run in found.runs)
    known = caveat("no-device", reason="Nothing lies under /srv/data.")
    told = {"fingerprint": fingerprint, "experiment": experiment, "runs": runs, "caveats": (*found.caveats, known)}

    kept.keep(ENTRY.name, found.model_copy(update=told), tmp_path)

    text = (tmp_path / ENTRY.name / layout.FINDINGS).read_text()
    assert "db.example.org" not in text
    assert "/srv" not in text
    assert len(text) < 0.6 * len(found.model_dump_json())
    assert kept.read_kept(ENTRY.name, tmp_path) is not None
    assert kept.read_kept("none", tmp_path) is None


def test_images_of_an_older_result_are_removed(tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    for name in (f"{ENTRY.name}.old.svg", "another.old.svg"):
        (images / name).write_text("<svg/>")

    pages.write_images(ENTRY, [charts.Picture(name="new", title="t", text="t", svg="<svg/>")], tmp_path)

    assert sorted(path.name for path in images.iterdir()) == [f"{ENTRY.name}.new.svg", "another.old.svg"]


def test_a_page_without_a_result_says_so(tmp_path):
    path = pages.write_page(ENTRY, None, tmp_path)

    assert pages.read_result(path) == pages.NO_RESULT


def test_the_index_has_every_experiment_with_its_answer(page):
    pages.write_index(tuple(ENTRIES.values()), page.parent)

    lines = (page.parent / "index.md").read_text().partition("## What was published")[0].splitlines()
    rows = [line for line in lines if line.startswith("| [")]
    assert len(rows) == len(ENTRIES)
    assert rows[0].startswith(f"| [{ENTRY.title}]({ENTRY.name}.md) (A1) | **✔ supported** – off is ")
    assert rows[1].endswith(f"| {pages.NO_RESULT} |")


def test_names_that_are_markup_stay_text(found, tmp_path):
    hostile = "a|b <script>alert(1)</script> ![x](y)"
    asked = found.hypothesis.model_copy(update={"claim": hostile, "reason": verbatim(hostile)})

    path = pages.write_page(ENTRY, found.model_copy(update={"hypothesis": asked}), tmp_path)

    result = pages.read_result(path)
    assert "<script" not in result
    assert "![x]" not in result


def test_requests_waits_and_queue_stand_beside_each_other_with_their_intervals(found):
    requests = next(metric for metric in found.metrics if metric.metric == "iostat.iops/vda")
    control, treated, *others = requests.arms
    measured = treated.model_copy(update={"ratio": Estimate(value=1.1, low=1.05, high=1.2)})
    known = requests.model_copy(update={"arms": (control, measured, *others)})
    metrics = tuple(known if metric is requests else metric for metric in found.metrics)

    lines = results.describe_result(found.model_copy(update={"metrics": metrics}))["means"]

    heads, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    named = {row[0]: row[1:] for row in rows}
    assert heads == ["", "on", "off", "placebo"]
    assert {"requests to the disk (vda)", "time of a write (vda)", "sessions waiting for I/O"} <= named.keys()
    assert named["requests to the disk (vda)"] == ["501/s", "501/s, +10.0 % (+5.0 % to +20.0 %)", "501/s"]


def test_what_has_to_be_said_beside_a_verdict_stands_in_the_headline(found):
    longer = caveat("effect-grows-with-slices", arm="off", change=0.952, low=0.923, high=0.982)

    told = results.answer(found.model_copy(update={"caveats": (*found.caveats, longer)}))

    assert told.endswith("and its true size is not known.")
    assert "true size" not in results.answer(found)


def test_an_unfinished_experiment_says_so(found):
    stopped = found.experiment.model_copy(update={"complete": False})

    assert results.answer(found.model_copy(update={"experiment": stopped})).endswith(" Not finished.")


def test_the_headline_of_a_claim_about_one_scenario_tells_all_of_them(found):
    asked = found.hypothesis.model_copy(update={"scenario": "read"})

    text = results.answer(found.model_copy(update={"hypothesis": asked}))

    assert re.search(r"All scenarios together: throughput \+[\d.]+ % \(\+.* to \+.*\)\.$", text)
    assert "All scenarios" not in results.answer(found)


def test_the_headline_hides_neither_what_got_worse_nor_that_nothing_acted(found, monkeypatch):
    idle = Engagement(setting="work_mem", state="idle", text="work_mem had nothing to act on.")
    untested = found.hypothesis.model_copy(update={"verdict": Verdict.INCONCLUSIVE, "not_tested": True})
    monkeypatch.setattr(results, "worst_text", lambda findings: "Worse in scenario “move”.")

    supported = results.answer(found.model_copy(update={"engagements": (idle,)}))
    told = results.answer(found.model_copy(update={"engagements": (idle,), "hypothesis": untested}))

    assert supported.endswith(f"Worse in scenario “move”. {results.NOTHING_ACTED}")
    assert told.startswith("**? not tested** – ")
    assert results.NOTHING_ACTED not in told


def test_a_page_shows_what_its_settings_acted_on(found, page):
    texts = [escape(say(each.text)) for each in found.engagements]

    assert texts
    assert all(f"- {text}\n" in pages.read_result(page) for text in texts)


def test_a_page_shows_which_arm_is_for_what_and_the_scores_of_declared_criteria(found):
    scores = causes_of(found).scorecard
    assert scores is not None
    arms = tuple(arm.model_copy(update={"score": 0.125, "best_share": 0.9}) for arm in scores.arms)
    weighted = (*scores.recommendations, scores.recommendations[0].model_copy(update={"goal": WEIGHTED}))
    scored = scores.model_copy(update={"arms": arms, "recommendations": weighted})
    causes = causes_of(found).model_copy(update={"scorecard": scored})

    usual = pages.render_result(found, [])
    declared = pages.render_result(found.model_copy(update={"causes": causes}), [])

    assert f"- fast: {escape(say(scores.recommendations[0].text))}" in usual
    assert "best score in" not in usual
    assert re.search(r"^\| off .* yes \| +\+0\.1[23] \| +90 % \|$", declared, re.MULTILINE)


def test_a_page_calls_an_effect_what_its_chart_calls_it(found, monkeypatch):
    monkeypatch.setattr(results, "effect_word", lambda findings, effect: "not worse")

    assert "| not worse |" in pages.render_result(found, [])


def test_a_page_says_what_has_been_mended_since_it_was_measured():
    line = "*{day} · PostgreSQL 15.18, 2 CPUs · 6 of 6 blocks*"

    (old,) = pages.remarks_on(f"text\n\n{line.format(day='2026-11-22')}")

    assert "older than 25 November 2026" in old
    (newer,) = pages.remarks_on(line.format(day="2026-11-25"))
    assert "older than 30 November 2026" in newer
    assert pages.remarks_on(line.format(day="2026-11-30")) == []
    assert pages.remarks_on("*2026-11-22 · 2 CPUs · 6 of 6 blocks*") == []
    assert pages.remarks_on(pages.NO_RESULT) == []


def test_a_page_says_that_its_result_is_of_an_earlier_file():
    changed = (entries.Earlier(until="2026-11-30", what="the disk was faster"),)

    (remark,) = pages.remarks_on("text\n\n*2026-11-25 · 2 CPUs · 6 of 6 blocks*", changed)

    assert remark == "This result is of an earlier form of the file below, in which the disk was faster."
    assert pages.remarks_on("text\n\n*2026-11-30 · 2 CPUs · 6 of 6 blocks*", changed) == []
    assert pages.remarks_on(pages.NO_RESULT, changed) == []


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_what_a_page_shows_of_the_disk_and_of_waiting_is_held_against_the_article(entry):
    figures = pages.figures_of(entry, pages.PAGES)

    measured = [each.key for each in entry.bottleneck if each.metric not in ("vmstat.us", "psi.io")]
    missing = [key for key in measured if key not in figures]

    assert missing == []


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_the_pages_in_the_repository_are_current(entry):
    path = pages.PAGES / f"{entry.name}.md"

    expected = pages.render_page(entry, pages.read_result(path))

    assert path.read_text() == expected, "write them anew: python -m gallery --pages"


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_the_results_on_the_pages_are_those_that_are_kept(entry, tmp_path):
    place = kept.KEPT / entry.name
    if not place.exists():
        return  # measured before anything was kept of a result
    shutil.copytree(place, tmp_path / kept.KEPT.name / entry.name)

    written = pages.write_page(entry, None, tmp_path)

    assert pages.read_result(written) == pages.read_result(pages.PAGES / f"{entry.name}.md")
    assert (place / layout.FINDINGS).stat().st_size <= LARGEST_KEPT


@pytest.mark.parametrize("code", translated.CODES)
def test_the_page_of_another_language_is_current_and_has_all_texts(code):
    expected = translated.render(tuple(ENTRIES.values()), code)

    assert (pages.PAGES / f"{code}.md").read_text() == expected, "write it anew: python -m gallery --pages"
    assert "**✔ подтверждено**" in expected
    assert "(от 1,89 k tps до 1,92 k tps), 32 клиента" in expected


def test_the_repository_has_all_images_of_its_pages_and_no_others():
    shown = {
        path
        for entry in ENTRIES.values()
        for path in re.findall(r"\((images/[^)]+\.svg)\)", (pages.PAGES / f"{entry.name}.md").read_text())
    }
    there = list((pages.PAGES / "images").glob("*"))

    assert {f"images/{path.name}" for path in there} == shown
    assert sum(path.stat().st_size for path in there) <= LARGEST_IN_ALL


def test_links_of_the_pages_lead_somewhere():
    for path in pages.PAGES.glob("*.md"):
        text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
