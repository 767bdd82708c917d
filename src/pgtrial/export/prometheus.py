"""The main numbers in the text format of Prometheus 0.0.4, for node_exporter's textfile collector or a push gateway.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/ and .../practices/naming/.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgtrial.export.tables.results import unit_of
from pgtrial.findings.findings import Effect, Findings
from pgtrial.findings.record import ALL
from pgtrial.model.caveat import Severity
from pgtrial.model.verdict import Verdict
from pgtrial.report.words import level_label
from pgtrial.safe_text import make_visible

_Labels = Mapping[str, str]
_Samples = Sequence[tuple[_Labels, float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A metric with its samples: labels and value. All are gauges: each export says what is so."""

    name: str
    help: str
    samples: _Samples


def render_prometheus(findings: Findings) -> str:
    """Every family with HELP and TYPE. What is not known has no line; there are no timestamps, which textfile
    collectors refuse.
    """
    return "".join(_render(family, findings.experiment.name) for family in _families(findings))


def _render(family: Family, experiment: str) -> str:
    lines = [
        _sample(family.name, {"experiment": experiment, **labels}, value)
        for labels, value in family.samples
        if value is not None and math.isfinite(value)
    ]
    if not lines:
        return ""
    text = family.help.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {family.name} {text}\n# TYPE {family.name} gauge\n" + "".join(lines)


def _sample(name: str, labels: _Labels, value: float) -> str:
    inside = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {float(value)!r}\n"


def _escape(text: str) -> str:
    """A label's value: hidden characters are written out, so there is no line break to escape."""
    return make_visible(text).replace("\\", r"\\").replace('"', r"\"")


def _families(findings: Findings) -> Iterator[Family]:
    experiment, asked = findings.experiment, findings.hypothesis
    yield Family(
        name="pgtrial_experiment_info",
        help="What was asked; always 1.",
        samples=[
            (
                {
                    "arm": asked.arm,
                    "control": asked.control,
                    "metric": asked.metric,
                    "expect": asked.expect,
                    "method": experiment.method,
                    "version": findings.pgtrial_version,
                },
                1,
            )
        ],
    )
    yield Family(
        name="pgtrial_verdict",
        help="Verdict on the claim: 1 for the one that holds, 0 for the others; none holds while it is provisional.",
        samples=[
            *(({"verdict": verdict}, float(verdict is asked.verdict and not asked.provisional)) for verdict in Verdict),
            ({"verdict": "provisional"}, float(asked.provisional)),
        ],
    )
    for name, help_, value in (
        ("verdict_provisional", "1 if blocks are still to come.", float(asked.provisional)),
        ("experiment_complete", "1 if every planned run is done.", float(experiment.complete)),
        ("experiment_started_timestamp_seconds", "Begin of the first run.", experiment.started),
        ("experiment_ended_timestamp_seconds", "End of the last run.", experiment.ended),
        ("margin_ratio", "Smallest change that matters, as a share.", asked.margin),
        (
            "detectable_change_ratio",
            "Smallest change that these blocks find with 80 % probability, as a share.",
            findings.noise.detectable,
        ),
    ):
        yield Family(name=f"pgtrial_{name}", help=help_, samples=[({}, value)])
    yield Family(
        name="pgtrial_blocks",
        help="Blocks of the experiment.",
        samples=[
            ({"state": "planned"}, experiment.blocks_planned),
            ({"state": "complete"}, experiment.blocks_complete),
        ],
    )
    yield Family(
        name="pgtrial_runs",
        help="Runs by arm; only those that are done count.",
        samples=[
            ({"arm": arm.name, "state": state}, count)
            for arm in experiment.arms
            for state, count in (("done", arm.runs_done), ("invalid", arm.runs_invalid))
        ],
    )
    yield Family(
        name="pgtrial_caveats",
        help="Caveats of the experiment by severity.",
        samples=[
            ({"severity": severity}, sum(caveat.severity == severity for caveat in findings.caveats))
            for severity in Severity
        ],
    )
    yield from _effects(findings)
    yield from _levels(findings)


def _effects(findings: Findings) -> Iterator[Family]:
    effects = (*findings.effects, *findings.placebo)

    def labels(effect: Effect) -> _Labels:
        return {
            "arm": effect.arm,
            "metric": effect.metric,
            "scenario": effect.scenario or "all",
            **_load(findings, effect.load_level),
        }

    for name, help_, values in (
        ("effect_ratio", "Arm divided by control.", [effect.ratio for effect in effects]),
        ("effect_low_ratio", "Lower end of the interval of arm divided by control.", [e.low for e in effects]),
        ("effect_high_ratio", "Upper end of the interval of arm divided by control.", [e.high for e in effects]),
        ("effect_blocks", "Blocks with a valid run of both arms.", [e.blocks for e in effects]),
    ):
        samples = [(labels(effect), value) for effect, value in zip(effects, values, strict=True)]
        yield Family(name=f"pgtrial_{name}", help=help_, samples=samples)


def _load(findings: Findings, level: int | str) -> _Labels:
    """The index is what tells load levels apart; two of them may read alike."""
    return {"load_level": str(level), "load": "all" if level == ALL else level_label(findings, level)}


def _levels(findings: Findings) -> Iterator[Family]:
    """What an arm does at a load level, by the unit of the metric."""
    for unit, name, help_ in (
        ("1/s", "throughput_per_second", "Throughput of an arm, geometric mean over the blocks."),
        ("B/s", "bandwidth_bytes_per_second", "Bandwidth of an arm, geometric mean over the blocks."),
        ("s", "latency_seconds", "Latency of an arm, geometric mean over the blocks."),
    ):
        samples = [
            ({"arm": point.arm, "metric": point.metric, **_load(findings, point.load_level)}, point.value)
            for point in findings.curve
            if unit_of(point.metric) == unit
        ]
        yield Family(name=f"pgtrial_{name}", help=help_, samples=samples)
