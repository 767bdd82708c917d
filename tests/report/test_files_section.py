import pytest

from pgtrial.findings.causes import Causes
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import verbatim
from pgtrial.findings.record import Estimate
from pgtrial.findings.storage import FileFact, FileLimit, FileThresholds, FileUse
from pgtrial.report.html import render_html, template_environment
from pgtrial.report.sections.storage import FILES
from pgtrial.report.words import format_metric, latency_of, metric_label, throughput_of

MB = float(1 << 20)


def use(arm: str, **changes: object) -> FileUse:
    known = FileUse(
        arm=arm,
        load_level=0,
        limit=FileLimit.THROTTLE,
        text=verbatim(f"{arm} reaches 48.1 MB/s and is held back."),
        bandwidth=Estimate(value=48.1 * MB, low=47 * MB, high=49 * MB),
        requests=Estimate(value=6157.0),
        latency=Estimate(value=162e-6),
        size=2048 * MB,
        memory=1800 * MB,
        read_share=None,
        write_share=Estimate(value=0.93),
        device_requests=Estimate(value=0.05),
        request_size=512 * 1024.0,
        merged_share=0.62,
        utilization=0.99,
        dirty=290 * MB,
        dirty_share=0.9,
        thresholds=FileThresholds(
            background=(170 * MB, 180 * MB, 190 * MB), limit=(360 * MB, 360 * MB, 360 * MB), free_run=270 * MB
        ),
        pauses=None,
        paused_share=None,
        direct_reclaim=0.0,
        background_reclaim=1200.0,
        facts=(FileFact(metric="dirty.share", value=0.9, unit="share", threshold=0.5, text=verbatim("much is dirty")),),
    )
    return known.model_copy(update=changes)


@pytest.fixture
def on_files(minimal: Findings) -> Findings:
    control, *others = [arm.name for arm in minimal.experiment.arms]
    uses = (
        use(control),
        *(use(other, limit=FileLimit.MEMORY, text=verbatim(f"{other} ends in memory.")) for other in others),
    )
    experiment = minimal.experiment.model_copy(update={"workload": {"kind": "fio", "scenarios": "files"}})
    return minimal.model_copy(update={"experiment": experiment, "causes": Causes(tier="", files=uses)})


def render(findings: Findings) -> str:
    return " ".join(template_environment().get_template("sections/files.html").render(FILES.build(findings)).split())


def test_a_load_on_a_server_has_no_such_section(minimal: Findings) -> None:
    assert not FILES.is_shown(minimal)


def test_the_section_tells_the_limit_of_each_arm_and_its_numbers(on_files: Findings) -> None:
    html = render(on_files).replace("\u00a0", " ")

    assert FILES.is_shown(on_files)
    assert "the throttle of writers" in html
    assert "48.1 MB/s (47 MB/s to 49 MB/s)" in html
    assert "180 MB (170 MB to 190 MB)" in html
    assert html.count("ends in memory") >= 1


def test_a_limit_that_does_not_move_is_told_once(on_files: Findings) -> None:
    assert "360 MB (" not in render(on_files).replace("\u00a0", " ")


def test_pauses_that_were_not_counted_are_not_zero(on_files: Findings) -> None:
    assert "not counted" in render(on_files)


def test_the_whole_page_is_made(on_files: Findings) -> None:
    page = render_html(on_files)

    assert 'id="files"' in page


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("fio.bandwidth", 277 * MB, "277 MB/s"),
        ("fio.iops", 35_400.0, "35.4 k IOPS"),
        ("fio.latency_p99", 1.3e-6, "1.3 µs"),
    ],
)
def test_metrics_of_files_have_their_units(metric: str, value: float, text: str) -> None:
    assert format_metric(metric, value).replace("\u00a0", " ") == text
    assert metric_label(metric) != metric


def test_the_metrics_are_those_of_the_kind_of_load(on_files: Findings, minimal: Findings) -> None:
    assert (throughput_of(on_files), latency_of(on_files, "p95")) == ("fio.iops", "fio.latency_p95")
    assert (throughput_of(minimal), latency_of(minimal, "p95")) == ("pgbench.tps", "pgbench.latency_p95")
