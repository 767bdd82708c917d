import re

import pytest
from jinja2 import UndefinedError

from pgtrial.findings.findings import Difference, Fact, Findings
from pgtrial.findings.message import message
from pgtrial.findings.questions import Drift, Soak, SoakArm
from pgtrial.findings.record import ALL, Estimate
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.report.html import render_html, script_json, template_environment
from pgtrial.report.markdown import render_summary
from pgtrial.report.narrative.worst import doubt_text
from pgtrial.report.sections import SECTIONS
from pgtrial.report.sections.effects import EFFECTS
from pgtrial.report.sections.verdict import VERDICT
from pgtrial.report.text import render_text
from pgtrial.report.words import scenario_latencies
from support.html import Page

SOAK = Soak(
    planned=3,
    window=60.0,
    confidence=0.95,
    arms=(
        SoakArm(
            arm="off",
            windows=(1, 2, 3),
            done=3,
            stretches=1,
            hours=(0.01, 0.03, 0.04),
            drifts=(
                Drift(
                    metric="pgbench.tps",
                    unit="1/s",
                    values=(100.0, 90.0, 80.0),
                    per_hour=Estimate(value=-600.0, low=-900.0, high=-300.0),
                    share=-0.2,
                ),
            ),
            text=message("soak.stays", arm="off"),
        ),
    ),
)
# What the library names but never fetches: XML namespaces, its own schema's name, and an address in a warning.
NAMED = {
    "http://www.w3.org/2000/svg",
    "http://www.w3.org/1999/xlink",
    "http://www.w3.org/2000/xmlns/",
    "https://vega.github.io/schema/vega/v6.json",
    "https://github.com/vega/vega-lite/issues/2415",
}


@pytest.fixture(scope="module")
def html(sample: Findings) -> str:
    return render_html(sample)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_every_section_renders_from_all_there_can_be_and_from_nothing(section, sample, minimal):
    template = template_environment().get_template(f"sections/{section.name}.html")

    full = sample.model_copy(update={"soak": SOAK}) if section.name == "soak" else sample
    assert len(template.render(section.build(full))) > 100
    assert template.render(section.build(minimal)).strip() or not section.is_shown(minimal)


def test_verdict_is_the_first_section_and_says_its_word(html):
    assert [section.name for section in SECTIONS[:2]] == ["ledger", "soak"]  # shown where they are asked for
    assert SECTIONS[2].name == "verdict"
    assert html.index("Supported</p>") < html.index("2.7 times as fast") < html.index('id="effects"')


@pytest.mark.parametrize("verdict", list(Verdict))
def test_each_verdict_is_a_word_and_not_only_a_colour(sample, verdict):
    changed = sample.model_copy(update={"hypothesis": sample.hypothesis.model_copy(update={"verdict": verdict})})

    page = Page(render_html(changed))

    assert any(f"badge-{verdict}" in (attributes.get("class") or "") for attributes in page.found("p"))
    assert verdict.capitalize() in page.text


def test_verdict_says_why_and_what_else_changes_the_worse_first(sample):
    p99 = next(
        e for e in sample.effects if (e.metric, e.load_level, e.scenario) == ("pgbench.latency_p99", "all", None)
    )
    dear = p99.model_copy(
        update={"metric": "cost.wal_bytes", "ratio": 1.2, "low": 1.15, "high": 1.25, "decision": Decision.WORSE}
    )
    context = VERDICT.build(sample.model_copy(update={"effects": (*sample.effects, dear)}))

    assert context["why"] == sample.causes.text.say()
    assert [each["metric"] for each in context["elsewhere"]] == [
        "bytes of WAL per transaction",
        "latency mean",
        "latency p99",
    ]
    assert context["elsewhere"][0]["effect"].startswith("+20.0 % (95 % interval +15.0 % to +25.0 %)")


def test_a_gain_that_is_not_sure_beside_all_others_is_left_out_and_a_loss_is_said_with_doubt(sample):
    def unsure(effects, decision):
        return tuple(effect.model_copy(update={"sure": False, "decision": decision}) for effect in effects)

    gains = VERDICT.build(sample.model_copy(update={"effects": unsure(sample.effects, Decision.BETTER)}))
    losses = VERDICT.build(sample.model_copy(update={"effects": unsure(sample.effects, Decision.WORSE)}))

    assert gains["elsewhere"] == []
    assert {each["doubt"] for each in losses["elsewhere"]} == {
        f"perhaps by chance, as {len(sample.effects)} were looked at"
    }


def test_the_only_load_level_is_no_further_chance(sample):
    one_level = sample.experiment.model_copy(update={"levels": sample.experiment.levels[:1]})
    over_all = [effect for effect in sample.effects if effect.load_level == ALL]
    found = sample.model_copy(update={"experiment": one_level})

    assert f"as {len(sample.effects)} were looked at" in doubt_text(sample)
    assert f"as {len(over_all)} were looked at" in doubt_text(found)
    assert 0 < len(over_all) < len(sample.effects)


def test_the_only_load_level_is_all_of_them_and_its_effects_are_told_once(sample):
    """Findings have those of each level beside those over all."""
    effects = sample.effects + tuple(effect.model_copy(update={"load_level": 0}) for effect in sample.effects)
    one_level = sample.experiment.model_copy(update={"levels": sample.experiment.levels[:1]})

    context = EFFECTS.build(sample.model_copy(update={"experiment": one_level, "effects": effects}))

    rows = [(row["arm"], row["metric"], row["scenario"], row["level"]) for row in context["rows"]]
    assert len(rows) == len(set(rows)) > 0


def test_all_that_got_worse_is_said_in_a_scenario_or_at_a_level_too(sample):
    effects = {(e.metric, e.scenario, e.load_level): e for e in sample.effects if e.arm == sample.hypothesis.arm}
    bad = {"ratio": 1.7, "low": 1.5, "high": 1.9, "decision": Decision.WORSE}
    p50 = effects["pgbench.latency_p50", None, "all"].model_copy(update={**bad, "scenario": "update"})
    at_level = effects["pgbench.latency_p99", None, "all"].model_copy(update={**bad, "load_level": 1})
    many = [
        p50.model_copy(update={"metric": f"cost.{name}", "scenario": None, "decision": Decision.BETTER, "ratio": 0.1})
        for name in ("wal_bytes", "cpu", "reads", "writes", "blocks_read")
    ]
    others = [e for e in sample.effects if e.metric != "pgbench.latency_p99"]
    context = VERDICT.build(sample.model_copy(update={"effects": (*others, *many, p50, at_level)}))

    said = [each["metric"] for each in context["elsewhere"] if each["decision"] is Decision.WORSE]
    assert said == ["latency p50 of update", "latency p99 with 16 clients"]
    assert len(context["elsewhere"]) == 5


def test_shares_of_transactions_show_the_latency_of_each_scenario_first(sample):
    overall = next(e for e in sample.effects if (e.metric, e.load_level) == ("pgbench.latency_mean", "all"))
    whole = [effect for effect in sample.effects if effect.scenario is None]
    slower = [overall.model_copy(update={"scenario": name}) for name in sample.experiment.scenarios]
    workload = {**sample.experiment.workload, "shares": message("share.by-transactions")}
    experiment = sample.experiment.model_copy(update={"workload": workload})
    mixed = sample.model_copy(update={"experiment": experiment, "effects": (*whole, *slower)})

    assert scenario_latencies(sample) == []
    assert list(dict.fromkeys(effect.scenario for effect in scenario_latencies(mixed))) == ["update", "read"]
    text = render_text(mixed)
    assert text.index("Mean latency by scenario") < text.index("throughput  ")
    summary = render_summary(mixed)
    assert summary.index("Mean latency by scenario") < summary.index("| throughput")
    assert "Mean latency by scenario" not in render_summary(sample)
    effects = next(section for section in SECTIONS if section.name == "effects")
    assert "latency mean by scenario" in effects.build(mixed)["charts"][0].title


def test_what_is_needed_is_said_only_of_an_open_question(sample, html):
    needed = sample.needed.model_copy(update={"blocks": 4, "text": message("needed.blocks", count=4)})
    undecided = sample.hypothesis.model_copy(update={"verdict": Verdict.INCONCLUSIVE})
    changed = sample.model_copy(update={"needed": needed, "hypothesis": undecided})

    assert "About 4 more blocks would decide the claim." in render_html(changed)
    assert "What is needed" not in html


def test_every_section_is_in_the_navigation(page, sample):
    anchors = {(a.get("href") or "").removeprefix("#") for a in page.found("a")}
    sections = {section.name for section in SECTIONS if section.is_shown(sample)}

    assert anchors == {*sections, "content"}
    assert sections <= {section.get("id") for section in page.found("section")}
    assert [main.get("id") for main in page.found("main")] == ["content"]


def test_the_page_loads_nothing(page, html):
    links = [attributes[name] for _, attributes in page.elements for name in ("src", "href") if name in attributes]

    assert all(link is not None and link.startswith(("#", "data:")) for link in links)
    assert set(re.findall(r"https?://[^\s\"'`)<]+", html)) <= NAMED
    assert "@import" not in html
    assert not re.search(r"url\((?!data:)", html.split("</style>")[0])


def test_the_policy_forbids_requests_and_evaluated_code(page):
    policy = next(m["content"] for m in page.found("meta") if m.get("http-equiv") == "Content-Security-Policy")

    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy
    assert "http" not in policy


def without_sources(html: str) -> str:
    """The page without the rows of where the narrative's numbers come from: a name with digits has one of its own."""
    head, table, rest = re.split(r'(<section id="narrative".*?<tbody>.*?</tbody>)', html, flags=re.DOTALL)
    assert {tag for tag, _ in Page(table.partition("<tbody>")[2]).elements} == {"tr", "td", "code"}
    return head + table.partition("<tbody>")[0] + rest


def test_hostile_names_stay_text(hostile, html):
    page, plain = Page(without_sources(render_html(hostile))), Page(without_sources(html))

    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    text = page.text
    assert "</script><script>alert(1)</script>" in text
    assert "&amp; {{ 7*7 }}" in text


def test_hidden_characters_in_names_are_written_out(hostile):
    html = render_html(hostile)

    assert "\x1b" not in html
    assert "\u202e" not in html
    assert r"a\x1b[31m\u202eb" in Page(html).text


def test_json_in_a_script_cannot_end_it():
    assert script_json({"a": "</script><!-- &"}) == '{"a":"\\u003c/script\\u003e\\u003c!-- \\u0026"}'


def test_every_chart_has_a_text_alternative_and_a_caption(page, html):
    plots = [a for a in page.found("div") if a.get("class") in {"plot", "effect-rows"}]

    assert plots
    assert all(plot.get("role") == "img" and plot.get("aria-label") for plot in plots)
    assert html.count("<figcaption>") == len(plots)


def test_one_load_level_is_a_sentence_instead_of_a_curve(sample):
    one = sample.experiment.model_copy(update={"levels": sample.experiment.levels[:1]})

    assert "There is one load level, 4 clients" in render_html(sample.model_copy(update={"experiment": one}))


def test_what_the_arms_declare_of_the_host_is_told_apart_from_what_nobody_asked_for(sample, html):
    asked = Difference(name="kernel: vm.swappiness", values={"on": "60", "off": "1"}, declared=True)
    world = sample.fingerprint.model_copy(update={"differences": (*sample.fingerprint.differences, asked)})

    page = render_html(sample.model_copy(update={"fingerprint": world}))

    nobody, declared = page.index("although nobody asked for it"), page.index("On the host, as the arms declare it")
    assert nobody < page.index("cpu governor") < declared < page.index("vm.swappiness")
    assert "as the arms declare it" not in html


def test_long_lists_of_facts_are_folded(sample):
    facts = tuple(Fact(group="kernel", name=f"vm.{n}", value="x" * 101 if n == 1 else "1") for n in range(21))
    world = sample.fingerprint.model_copy(update={"facts": facts})

    page = render_html(sample.model_copy(update={"fingerprint": world}))

    assert "<summary>21 facts</summary>" in page
    assert f"<summary>{'x' * 20}…</summary>" in page


def test_invalid_runs_are_listed_with_their_reason(html):
    assert re.search(r"run \d+ \(off, block 2\), invalid: pgbench aborted: client 3 lost its connection", html)


def test_unfinished_experiments_say_so(minimal, html):
    assert "The experiment is not finished" in render_html(minimal)
    assert "The experiment is not finished" not in html


def test_a_missing_value_in_a_template_is_an_error():
    with pytest.raises(UndefinedError):
        template_environment().from_string("{{ nothing }}").render()


def test_the_page_of_a_large_experiment_stays_small(large):
    assert len(render_html(large).encode()) < 3_000_000


def test_the_noise_is_shown_before_what_rests_on_it(page, minimal):
    text = " ".join(page.text.split())

    assert "varies by 2.1 % (standard deviation), that of the placebo, which does nothing, by 1.8 %" in text
    assert "Had each arm been run once" in text
    assert "Inside the blocks" not in text
    assert "Nothing can be said about the noise" in render_html(minimal)


def test_an_adjusted_effect_stands_with_the_noise(adjusted, page):
    text = " ".join(Page(render_html(adjusted)).text.split())

    assert "Covariate At equal stolen CPU time the change would be +161 %. The verdict is about" in text
    assert "Covariate" not in page.text


def test_the_method_says_how_arms_took_turns(turns, html):
    text = " ".join(Page(render_html(turns)).text.split())

    assert "each block runs all 3 arms once, in short turns" in text
    assert "One arm after the other is at work in a slice of 1 s" in text
    assert "The first 100 ms of a slice, its guard time, do not count" in text
    assert "What counts are 27 s of each arm at each load level of a block, in 30 slices." in text
    assert "Every setting takes effect at once." in text
    assert "Inside the blocks" in text
    assert "its arm's slices, put end to end" in text
    assert "Interleaved." not in html


def test_the_method_says_how_a_duet_was_played(turns):
    experiment = turns.experiment.model_copy(update={"method": "duet"})
    text = " ".join(Page(render_html(turns.model_copy(update={"experiment": experiment}))).text.split())

    assert "each block runs all 3 arms once, at the same time" in text
    assert "They exchange their CPUs after 1 s, in random order" in text
    assert "One arm after the other is at work" not in text


def test_an_experiment_that_its_rule_ended_is_finished(stopped):
    text = " ".join(Page(render_html(stopped)).text.split())

    assert "The experiment is not finished" not in text
    assert "It was planned to look after 2, 4, 6 complete blocks" in text
    assert "spent over the looks (by O’Brien and Fleming)" in text
    assert "with an error probability of 0.018 each. After 4 of 6 blocks: the claim is supported." in text
    assert "P-values know nothing of the looks" in text
    assert "Stopping: After 4 of 6 blocks: the claim is supported." in render_text(stopped)
    assert "Not finished" not in render_text(stopped)


def test_a_rule_that_has_not_ended_the_experiment_leaves_it_unfinished(stopped):
    going = stopped.stopping.model_copy(
        update={"rule": "precision", "precision": 0.02, "spending": None, "ended": None}
    )
    page = render_html(stopped.model_copy(update={"stopping": going}))

    assert "The experiment is not finished" in page
    assert "as narrow as 2 %" in page
    assert "error probability, 0.018 each." in " ".join(page.split())
