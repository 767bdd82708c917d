import re

import pytest

from pgtrial.export.tables import tables_of
from pgtrial.findings.causes import Causes, Estimate, Level, LimitEvidence, Resource
from pgtrial.findings.message import message, verbatim
from pgtrial.findings.over_time import LogSummary
from pgtrial.language import find_language, speak
from pgtrial.narrate.facts import tell_facts
from pgtrial.report.cause_words import (
    difference_text,
    distinct_levels,
    estimate_text,
    file_of,
    levels_text,
    metric_words,
)
from pgtrial.report.html import render_html, template_environment
from pgtrial.report.sections import SECTIONS
from pgtrial.report.sections.observations import describe_numbers
from pgtrial.report.text import render_text
from pgtrial.report.values import format_value
from support.html import Page

OPTIONAL = {
    "courses",
    "files",
    "hosts",
    "ledger",
    "proofs",
    "factors",
    "metrics",
    "limits",
    "disks",
    "scorecard",
    "panels",
    "stability",
    "checks",
    "associations",
    "server_log",
    "soak",
    "acceptance",
}
HOSTILE = "</script><script>alert(1)</script>\x1b[31m\u202e{{ 7*7 }}"
# What people, servers and devices name; the other texts are words of pgtrial's own.
FREE = {
    *("text", "detail", "advice", "name", "event", "object", "near", "title", "metric", "like", "aligned", "reason"),
    *(
        "trade_off",
        "goal",
        "disk",
        "device",
        "first",
        "second",
        "family",
        "id",
        "scenario",
        "topic",
        "criterion",
        "below",
        "above",
    ),
}


def section(findings, name: str) -> str:
    """One section's HTML, white space as a reader sees it."""
    found = next(each for each in SECTIONS if each.name == name)
    return " ".join(template_environment().get_template(f"sections/{name}.html").render(found.build(findings)).split())


def words(html: str) -> str:
    """The text outside scripts."""
    return " ".join(" ".join(Page(html).texts).split()).replace("\u00a0", " ")


def change(findings, **parts):
    """The findings with other parts of their causes."""
    return findings.model_copy(update={"causes": findings.causes.model_copy(update=parts)})


def poison(value, key=""):
    """The same data with a hostile text wherever somebody else chooses it."""
    if isinstance(value, dict):
        return {name: poison(item, name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [poison(item, key) for item in value]
    return HOSTILE if key in FREE and isinstance(value, str) else value


# --- The page -------------------------------------------------------------------------------------------------------


def test_sections_without_data_are_left_out_of_page_and_navigation(sample):
    bare = sample.model_copy(update={"causes": None})
    page = render_html(bare)

    assert {each.name for each in SECTIONS if not each.is_shown(bare)} == OPTIONAL
    assert not any(f'href="#{name}"' in page or f'id="{name}"' in page for name in OPTIONAL)
    # The sample's load is on a server; tests/report/test_files_section.py has one on files.
    assert {each.name for each in SECTIONS if not each.is_shown(sample)} == {
        *("acceptance", "files", "hosts", "ledger", "proofs", "factors", "metrics", "soak"),
    }


def test_why_comes_after_the_noise_and_before_all_other_causes():
    names = [each.name for each in SECTIONS]

    # The ledger is the answer of an experiment that asks for one, and so is the soak.
    assert names[:8] == ["ledger", "soak", "verdict", "hosts", "acceptance", "narrative", "effects", "factors"]
    assert names[8:14] == ["noise", "why", "limits", "proofs", "files", "scorecard"]


def test_every_section_of_causes_says_where_its_numbers_come_from(sample):
    for name in ("why", "limits", "scorecard", "curve", "panels", "stability", "checks", "associations", "server_log"):
        assert 'class="from">' in section(sample, name)
        assert re.search(r"(samples|waits|transactions)\.parquet|server\.jsonl", section(sample, name))


def test_causes_survive_being_written_and_read(sample):
    assert Causes.model_validate_json(sample.causes.model_dump_json()) == sample.causes


def test_hostile_texts_stay_texts(sample):
    causes = Causes.model_validate(poison(sample.causes.model_dump()))
    findings = sample.model_copy(update={"causes": causes})

    page, text = render_html(findings), render_text(findings, width=200)

    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert(1)") > 50
    for shown in (page, text):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    assert "{{ 7*7 }}" in words(page)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("checks", "‼ alarm CPU busy more than 80.0 % vmstat.us + vmstat.sy of samples.parquet"),
        ("checks", "93.0 % 90.0 % of the time"),
        ("checks", "sessions waiting for I/O from 4.0 % on waits.IO / (sessions.active) of waits.parquet"),
        ("checks", "CPU busy: look at what off does. (off, 4 clients)"),
        ("checks", "on 4 clients OLTP 99.4 % 11.2 8 kB 3 4 ms All five features speak for OLTP."),
        (
            "curve",
            "off 620/s (595/s to 645/s) 0.08 (0.0768 to 0.0832) 0.0023 (0.00184 to 0.00276) 20 (18 to 22) 9 2.1 %",
        ),
        ("curve", "two load levels are too few"),
        (
            "limits",
            "off, 4 clients: undetermined nearest: CPU (0.35) Nothing was near its limit. The CPUs are busy for 71 %",
        ),
        ("limits", "off, 16 clients: CPU strength 0.88 The CPUs are busy for 97 %"),
        ("server_log", "checkpoint 12 buffers 15 k, write 38.4 s, sync 900 ms, distance 391 MB all timed"),
        ("server_log", "error 40001 none 400 serialization_failure none"),
        ("stability", "on 4 clients 11.0 % (9.9 % to 12.1 %) 410/s (369/s to 451/s) 9.0 % (6.3 % to 11.7 %) 0.0 %"),
        ("stability", "−3.1/s (−9/s to +2.8/s)"),
        ("why", "on 4 clients all scenarios IO WalSync 3.1 ms (2.98 ms to 3.22 ms) 69.7 %"),
        ("why", "off all load levels IO WalSync −4.96 ms ("),
        ("why", "on all load levels IO WALSync 3.40 3.78 ms"),
    ],
)
def test_rows_stand_with_their_values_units_and_intervals(sample, name: str, told: str):
    assert told in words(section(sample, name))


# --- Why ------------------------------------------------------------------------------------------------------------


def test_the_reason_is_the_first_that_is_said(sample):
    html = section(sample, "why")

    assert html.startswith('<p class="lead">Transactions of off no longer wait for the WAL')
    assert "Where the difference lies" in html
    assert "98.7 % of the measured latency" in words(html)
    assert "sampled sessions" in html


def test_the_line_of_80_percent_is_below_the_items_that_reach_it(sample):
    html = section(sample, "why")
    rows = re.findall(r'<tr( class="line80")?> <td class="note">(.*?)<span', html)

    assert ("", "IO WalSync ") in rows
    assert (' class="line80"', "LWLock WALWrite ") in rows
    assert (' class="line80"', "<code>COMMIT</code> ") in rows


def test_long_pareto_tables_end_with_what_is_left(sample):
    pareto = sample.causes.paretos[0]
    tail = tuple(pareto.items[-1].model_copy(update={"share": 0.01}) for _ in range(10))
    longer = pareto.model_copy(update={"items": (*pareto.items, *tail)})

    assert "2 more 2.0 %" in words(section(change(sample, paretos=(longer,)), "why"))


def test_waits_are_shown_where_there_is_no_budget(sample):
    bare = section(sample.model_copy(update={"causes": None}), "why")

    assert "The part that shrinks from one arm to the next is the likely cause" in bare
    assert "Time per transaction by wait type" in bare
    assert "The part that shrinks" not in section(sample, "why")


def test_without_samples_that_is_said(minimal):
    assert section(minimal, "why") == "<p>There are no sampled sessions.</p>"


# --- Limits ---------------------------------------------------------------------------------------------------------


def test_what_changed_between_the_arms_is_said_first(sample):
    html = section(sample, "limits")

    assert html.index("off is limited with 4 clients by") < html.index("<table>")


def test_evidence_stands_with_its_value_threshold_metric_and_file(sample):
    text = words(section(sample, "limits"))

    assert "Of the active sessions 68 % wait for WalSync. 68.0 %, threshold 30.0 %; wait.IO of waits.parquet" in text
    assert "94.0 %" not in text
    assert "wal.sync_time of samples.parquet" in text
    assert "LWLocks (0.31)" in text


def test_what_another_suspect_brings_about_has_no_file(sample):
    limit = sample.causes.limits[0]
    suspect = limit.suspects[0]
    about = LimitEvidence(
        metric="limit.memory", value=0.9, unit="", threshold=0.5, text="too little memory brings this about"
    )
    brought = limit.model_copy(update={"suspects": (suspect.model_copy(update={"evidence": (about,)}),)})

    html = section(change(sample, limits=(brought,)), "limits")

    assert "<li>too little memory brings this about</li>" in html


@pytest.mark.parametrize(
    "proved",
    [{"proved": Resource.CPU}, {"proved": Resource.WAL_FLUSH, "by_rules": Resource.CPU}],
    ids=["of the named one", "overruled"],
)
def test_what_an_experiment_says_of_a_limit_stands_beside_its_evidence(sample, proved):
    limit = sample.causes.limits[0].model_copy(update={**proved, "text": "What it costs is CPU time."})
    assert limit.resource is limit.suspects[0].resource is Resource.WAL_FLUSH

    html = section(change(sample, limits=(limit,)), "limits")

    assert "What it costs is CPU time." in html


# --- Checks ---------------------------------------------------------------------------------------------------------


def test_the_gravest_checks_are_first_and_those_without_a_finding_folded(sample):
    html = section(sample, "checks")
    raised, folded = html.split("<summary>1 check without a finding</summary>")

    assert raised.index("CPU busy") < raised.index("response time of writes, vda")
    assert "the device&#39;s queue" in folded
    assert "the device&#39;s queue" not in raised


def test_levels_are_words_and_not_only_colours(sample):
    html = section(sample, "checks")

    for level in (Level.ALARM, Level.WARNING):
        assert re.search(rf'<span class="level level-{level}"><span aria-hidden="true">.</span> {level}</span>', html)
    assert 'title="alarm">‼</span>' in html


def test_a_check_of_a_newer_pgtrial_is_shown_as_it_is(sample):
    new = sample.causes.checks[0].model_copy(update={"id": "new-check", "name": "something new"})

    assert "something new 80.0 %" in words(section(change(sample, checks=(new,)), "checks"))


def test_a_check_and_its_advice_are_in_the_language_of_the_page(sample):
    check = sample.causes.checks[0].model_copy(
        update={"name": "trend of waiting for I/O", "level": Level.ALARM, "advice": message("advice.io-wait")}
    )
    with speak(find_language("es")):
        text = words(section(change(sample, checks=(check,)), "checks"))

    assert "tendencia de la espera de E/S" in text
    assert "Es tiempo ocioso" in text


def test_the_numbers_of_pg_expecto_are_folded_and_explained(sample):
    html = section(sample, "checks")
    folded = html[html.index("<summary>pg_expecto") :]

    assert "6000 is one session that waits all the time" in words(folded)
    assert "108 k" in folded
    assert "21.5 k" in folded
    assert "pg_expecto" not in html[: html.index("<summary>pg_expecto")]


# --- Associations ---------------------------------------------------------------------------------------------------


def test_an_association_is_not_called_a_cause(sample):
    text = words(section(sample, "associations"))

    assert text.startswith("An association is not a cause.")
    assert "Of 4 pairs 3 are real" in text


def test_real_associations_come_first_and_parts_of_a_whole_are_marked(sample):
    html = section(sample, "associations")
    shown, folded = html.split("<summary>")

    assert shown.index(">waits.IO<br>") < shown.index(">waits.Lock<br>") < shown.index(">vmstat.bo<br>")
    assert "part of the whole: they must go together" in shown
    assert "the other way round than usual (+)" in shown
    assert ">waits.LWLock<br>" in folded
    assert ">waits.Timeout<br>" in folded


# --- Inside the runs ------------------------------------------------------------------------------------------------


def test_the_runs_of_one_block_are_shown_and_others_folded(sample):
    shown, *folded = section(sample, "panels").split("<details>")

    assert [title.split(":")[0] for title in re.findall("<h3>(.*?)</h3>", shown)] == ["on", "off", "placebo"]
    assert [re.findall("<summary>(.*?)</summary>", part) for part in folded] == [
        ["The runs of block 6"],
    ]


# --- Stability ------------------------------------------------------------------------------------------------------


def test_variation_is_compared_at_the_highest_load_level(sample):
    text = words(section(sample, "stability"))

    assert text.startswith(
        "Throughput varies from second to second of “on” by 11.0 %, of “off” by 19.0 % of its mean (with 16 clients)."
    )


def test_the_deepest_dips_are_first_with_what_was_near(sample):
    text = words(section(sample, "stability"))
    dips = text[text.index("The deepest dips") :]

    assert re.search(r"\d+ off 4 clients 18 s 4 s 61.0 % 2 s 3 s 1 s checkpoint", dips)
    assert "not in this run none checkpoint" in dips
    assert dips.index(" off ") < dips.index(" on ")


def test_dips_that_are_not_listed_are_counted(sample):
    each = sample.causes.stability[0]
    many = each.model_copy(update={"dips": each.dips[:1] * 15})

    assert "3 shallower ones are not listed." in words(section(change(sample, stability=(many,)), "stability"))


def test_a_rhythm_that_noise_shows_as_well_is_grey(sample):
    html = section(sample, "stability")

    assert '30.2 s</td><td class="number">21.0 %' in html
    assert re.search(r'<tr class="faint">(?:(?!</tr>).)*7.7 s', html)
    assert not re.search(r'<tr class="faint">(?:(?!</tr>).)*30.2 s', html)


# --- Load curve, scorecard, log -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("certain", "end"), [(True, "above it “off”."), (False, "do not exclude that they are alike.")]
)
def test_a_crossing_says_how_sure_it_is(sample, certain, end):
    crossing = sample.causes.crossings[0].model_copy(update={"is_certain": certain})
    text = words(section(change(sample, crossings=(crossing,)), "curve"))

    assert "Below about 6.4 clients “on” has the larger throughput" in text
    assert end in text


def test_the_scorecard_recommends_and_names_the_trade_off(sample):
    text = words(section(sample, "scorecard"))

    assert text.startswith("Fast. off: throughput +166.0 %, against on.")
    assert "A trade-off. off is faster, on more even" in text
    assert "criteria that the experiment's file declared before the first run" in text
    assert "off +166 % +158 % to +174 % best in 98 %" in text
    assert "✔ yes +0.475 97 %" in text


def test_usual_criteria_are_called_so(sample):
    card = sample.causes.scorecard
    usual = card.model_copy(update={"recommendations": card.recommendations[:1]})

    assert "the experiment's file declares none" in words(section(change(sample, scorecard=usual), "scorecard"))


def test_messages_in_another_language_are_said_not_to_be_known(sample):
    said = "what these messages tell is not known"
    russian = LogSummary(arm="on", kind="not English", count=37, numbers={}, text=verbatim(said))

    assert f"not in English 37 {said}" in words(section(change(sample, log=(russian,)), "server_log"))


def test_numbers_of_the_log_have_the_unit_that_their_name_ends_with():
    assert describe_numbers({"write seconds": 38.4, "distance bytes": 2048.0, "files": 3.0}) == [
        "write 38.4 s",
        "distance 2 kB",
        "files 3",
    ]


# --- The terminal ---------------------------------------------------------------------------------------------------


def test_the_terminal_says_why_between_effects_and_trust(sample):
    text = render_text(sample)

    assert "Why: Transactions of off no longer wait for the WAL" in text
    assert text.index("By load level") < text.index("Why:") < text.index("Placebo:")
    assert "Why:" not in render_text(sample.model_copy(update={"causes": None}))


# --- Words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.93, "share", "93.0 %"),
        (0.00142, "s", "1.42 ms"),
        (2048.0, "B", "2 kB"),
        (-2048.0, "B", "−2 kB"),
        (12.0 * 2**20, "B/s", "12 MB/s"),
        (3000.0, "1/s", "3 k/s"),
        (4.0, "1/min", "4/min"),
        (0.94, "s/s", "0.94 s/s"),
        (2.5, "sessions", "2.5 sessions"),
        (7.0, "", "7"),
        (None, "s", "–"),
        (float("nan"), "share", "–"),
    ],
)
def test_values_are_written_in_the_readers_units(value, unit, text):
    assert format_value(value, unit) == text


def test_estimates_carry_their_intervals():
    estimate = Estimate(value=-0.0012, low=-0.0013, high=0.0001)

    assert difference_text(estimate, "s") == "−1.2 ms (−1.3 ms to +100 µs)"
    assert estimate_text(Estimate(value=2.0), "s") == "2 s"
    assert estimate_text(None, "s") == "–"


def test_metrics_name_the_file_they_come_from():
    assert file_of("vmstat.us") == "samples.parquet"
    assert file_of("wait.Lock") == "waits.parquet"
    assert file_of("pgbench.tps") == "transactions.parquet"
    assert file_of("pgbench.cpu") == "samples.parquet"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vmstat.cs", "context switches"),
        ("iostat.util/vda", "time with at least one request under way"),
        ("waits.IO", "sessions in IO"),
        ("wait.IO/WalSync", "sessions in IO WalSync"),
        ("pgbench.tps", "throughput"),
        ("nobody.knows", ""),
    ],
)
def test_metrics_are_explained(name, text):
    assert metric_words(name) == text


@pytest.mark.parametrize(
    ("levels", "text"),
    [(["all"], "over all load levels"), ([0, 1], "at every load level"), ([1], "with 16 clients")],
)
def test_load_levels_read_as_words(sample, levels, text):
    assert levels_text(sample, levels) == text


def test_a_single_load_level_is_told_once(sample):
    experiment = sample.experiment.model_copy(update={"levels": sample.experiment.levels[:1]})
    one = sample.model_copy(update={"experiment": experiment})

    assert {each.load_level for each in distinct_levels(one, sample.causes.budgets)} == {"all"}
    assert len(distinct_levels(sample, sample.causes.budgets)) == len(sample.causes.budgets)
    assert words(section(one, "why")).count("on 4 clients all scenarios IO WalSync") == 1


def test_a_single_load_level_is_named(sample):
    one = sample.experiment.model_copy(update={"levels": sample.experiment.levels[:1]})

    assert levels_text(sample.model_copy(update={"experiment": one}), ["all"]) == "with 4 clients"


@pytest.mark.parametrize("is_apart", [True, False, None])
def test_limits_that_may_differ_by_chance_are_said_to(sample, is_apart: bool | None) -> None:
    """None: findings of before anybody asked."""
    control = sample.hypothesis.control
    limits = tuple(
        limit.model_copy(update={"is_apart": None if limit.arm == control else is_apart})
        for limit in sample.causes.limits
        if limit.arm in (control, sample.hypothesis.arm)
    )
    found = change(sample, limits=limits)
    by_level = {(limit.load_level, limit.arm): (limit.resource, limit.detail) for limit in limits}
    differ = sum(name != by_level[level, control] for (level, _), name in by_level.items())
    (table,) = (each for each in tables_of(found) if each.name == "limits")
    place = [column.name for column in table.columns].index("may_be_chance")
    html = section(found, "limits")
    head, evidence = html.split("<details", 1)

    assert differ > 0
    assert head.count("the runs do not tell the arms apart") == (0 if is_apart else 2 * differ)
    assert evidence.count("The runs do not tell the arms apart.") == (0 if is_apart else 2 * differ)
    assert any(row[place] for row in table.rows) is not bool(is_apart)
    doubts = [fact for fact in tell_facts(found, with_texts=True) if "do not tell the arms apart" in fact.value]
    assert bool(doubts) is not bool(is_apart)


def test_stability_says_what_sessions_do_inside_dips_and_what_comes_before_them(sample):
    html = section(sample, "stability")

    assert "What sessions do inside dips" in html
    assert "IO WalSync" in html
    assert "IO WalSync, by 4.9" in html
    assert "What comes before dips" in html
    assert "none of 14 metrics is unlike itself before dips." in html


def test_runs_too_short_for_dips_say_so_instead_of_nothing(sample):
    assert sample.causes is not None
    nothing = dict.fromkeys(("coefficient_of_variation", "lowest", "dip_share", "stalled", "trend"))
    short = tuple(
        each.model_copy(update={**nothing, "dips": (), "periods": (), "waits": (), "signs": (), "signs_tried": 0})
        for each in sample.causes.stability
    )
    html = section(
        sample.model_copy(update={"causes": sample.causes.model_copy(update={"stability": short})}), "stability"
    )

    assert "No load level was measured for 20" in html
    assert "<table" not in html


def test_wait_types_and_background_processes_have_their_tables(sample):
    html = section(sample, "why")

    assert "Inside each wait type" in html
    assert "WalSync 70.0" in html
    assert "Background processes" in html
    assert "checkpointer" in html
    assert "IO DataFileWrite" in html
