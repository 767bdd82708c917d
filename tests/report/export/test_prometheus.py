import re

import pytest

from pgtrial.export.prometheus import Family, _render, render_prometheus

# The grammar of https://prometheus.io/docs/instrumenting/exposition_formats/, without the timestamp, which is optional.
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"'
SAMPLE = re.compile(rf"(?P<name>{NAME})\{{(?P<labels>{LABEL}(?:,{LABEL})*)\}} (?P<value>-?[0-9.]+(?:e[+-]?[0-9]+)?)")
HELP = re.compile(rf"# HELP (?P<name>{NAME}) (?:[^\\\n]|\\[\\n])+")
TYPE = re.compile(rf"# TYPE (?P<name>{NAME}) gauge")


def parse(text: str) -> dict[str, dict[str, float]]:
    """Family to labels to value; fails where a line is not as the format has it, or says a thing twice."""
    found: dict[str, dict[str, float]] = {}
    assert text.endswith("\n")
    lines = iter(text.splitlines())
    current = ""
    for line in lines:
        if line.startswith("# HELP"):
            match = HELP.fullmatch(line)
            assert match, line
            current = match["name"]
            assert current not in found
            type_ = TYPE.fullmatch(next(lines))
            assert type_, line
            assert type_["name"] == current
            found[current] = {}
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match["name"] == current
            assert match["labels"] not in found[current]
            found[current][match["labels"]] = float(match["value"])
    return found


def test_every_line_is_as_the_format_has_it_and_each_sample_is_there_once(sample):
    found = parse(render_prometheus(sample))

    assert {labels: value for labels, value in found["pgtrial_verdict"].items() if value == 1} == {
        'experiment="synchronous-commit",verdict="supported"': 1
    }
    effect = sample.effects[0]
    labels = 'experiment="synchronous-commit",arm="off",metric="pgbench.tps",scenario="all",load_level="all",load="all"'
    assert found["pgtrial_effect_ratio"][labels] == effect.ratio
    assert found["pgtrial_effect_low_ratio"][labels] == effect.low
    assert len(found["pgtrial_throughput_per_second"]) == 6
    assert len(found["pgtrial_latency_seconds"]) == 12


def test_what_is_not_known_has_no_line(minimal):
    found = parse(render_prometheus(minimal))

    assert "pgtrial_effect_ratio" not in found
    assert "pgtrial_experiment_started_timestamp_seconds" not in found
    assert found["pgtrial_blocks"]


def test_hostile_names_stay_inside_their_labels(hostile):
    found = parse(render_prometheus(hostile))

    assert any(r"\\x1b[31m\\u202ered\\nline" in labels for labels in found["pgtrial_runs"])


@pytest.mark.parametrize(
    ("name", "escaped"), [('a"b', r"a\"b"), ("a\\b", r"a\\b"), ("a\nb", r"a\\nb"), ("a}b{", "a}b{"), ("ü", "ü")]
)
def test_quotation_marks_backslashes_and_line_breaks_are_escaped(name, escaped):
    rendered = _render(Family(name="x", help="A\nB\\", samples=[({"arm": name}, 0.1)]), "e")

    assert rendered == f'# HELP x A\\nB\\\\\n# TYPE x gauge\nx{{experiment="e",arm="{escaped}"}} 0.1\n'
