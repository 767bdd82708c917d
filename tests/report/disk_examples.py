"""Example disks and pages for the report's tests: a control on an emulated disk at its limit, others on a slow one."""

from collections.abc import Mapping

from pgtrial.findings.message import message, verbatim
from pgtrial.findings.questions import DataFit, HugePageFindings, PageCheck, PageGain, TranslationCost
from pgtrial.findings.record import Estimate
from pgtrial.findings.storage import DiskCeiling, DiskLoad, DiskStanding, DiskUse, ServerSize
from pgtrial.model.verdict import Decision

MB = 1024.0**2


def near(value: float, share: float = 0.01) -> Estimate:
    return Estimate(value=value, low=value * (1 - share), high=value * (1 + share))


def make_disks(name_of: Mapping[str, str]) -> tuple[DiskUse, ...]:
    """Of the control, which stands at its limit at the second load level, and of the arm, whose disk is slow."""
    return (
        DiskUse(
            arm=name_of["on"],
            device="loop0",
            disk="ssd-ceph",
            is_emulated=True,
            is_enforced=True,
            declared={"read_iops": 3000.0, "write_iops": 1500.0},
            levels=(_load(0, 2100.0, DiskStanding.NOT_LIMITING), _load(1, 3000.0, DiskStanding.AT_LIMIT)),
            spread=None,
            size=ServerSize(
                cpus=near(1.3),
                whole=2,
                load_level=1,
                source=message("cpu-source.processes"),
                is_bound=False,
                text=verbatim("At its limit this disk keeps 1.3 CPUs busy."),
            ),
            text=verbatim("An emulated disk. With 16 clients the disk stands at the limit that pgtrial enforces."),
        ),
        DiskUse(
            arm=name_of["off"],
            device="vda",
            disk="hdd",
            is_emulated=False,
            is_enforced=False,
            declared={"read_bytes": 2 * MB},
            levels=(_load(0, 120.0, DiskStanding.SLOW), _load(1, 190.0, DiskStanding.SLOW)),
            spread=None,
            size=None,
            text=verbatim("With 16 clients the disk is slow, not at a limit."),
        ),
    )


def _load(level: int, reads: float, standing: DiskStanding) -> DiskLoad:
    ceiling = None
    if standing is DiskStanding.AT_LIMIT:
        ceiling = DiskCeiling(
            of="reads",
            metric="iostat.r",
            unit="1/s",
            value=near(reads, 0.001),
            pinned_share=0.97,
            steadiness=0.0012,
            free_steadiness=0.018,
            is_plateau=True,
            declared=3000.0,
            is_at_declared=True,
        )
    return DiskLoad(
        load_level=level,
        standing=standing,
        ceiling=ceiling,
        throughput=near(reads / 1.5),
        reads=near(reads),
        writes=near(12.0),
        read_bytes=near(reads * 8192),
        write_bytes=near(12.0 * 8192),
        read_size=near(8192.0),
        write_size=None,
        read_latency=near(0.0013),
        write_latency=None,
        queue=near(3.9),
        iowait=near(0.6),
        cpu_busy=near(0.3),
        cpus=near(1.3),
        text=verbatim(f"With load level {level} the disk is {standing}."),
    )


def make_pages(name_of: Mapping[str, str]) -> HugePageFindings:
    """Gains of one page size at two data sizes and two load levels."""
    gains = []
    for arm, scale, ratios in (("off", 10, (1.05, 1.02, 1.08)), ("placebo", 100, (1.0, 1.01, 0.99))):
        for level, ratio in zip(("all", 0, 1), ratios, strict=True):
            gains.append(
                PageGain(
                    arm=name_of[arm],
                    baseline=name_of["on"],
                    page="2MB",
                    baseline_page="none",
                    scale=scale,
                    load_level=level,
                    ratio=ratio,
                    low=ratio - 0.01,
                    high=ratio + 0.01,
                    confidence=0.95,
                    decision=Decision.BETTER if ratio > 1.04 else Decision.EQUIVALENT,
                    blocks=6,
                )
            )
    return HugePageFindings(
        gains=tuple(gains),
        fits=(
            _fit((name_of["on"], name_of["off"]), 10, 150 * MB, fits=True),
            _fit((name_of["placebo"],), 100, 1500 * MB, fits=False),
        ),
        checks=(
            _check(name_of["on"], "none", found=4096.0, used=0.0, back=6),
            _check(name_of["off"], "2MB", found=2 * MB, used=540 * MB, back=5),
        ),
        translations=(
            TranslationCost(
                arm=name_of["off"],
                load_level=0,
                misses=near(812.0),
                miss_share=near(0.0005),
                code_misses=None,
                instructions=near(61e3),
            ),
        ),
        reason=None,
        text=message(
            "page-gain.matters",
            gain=message(
                "page-gain.most-at-both",
                page="2MB",
                scale=10,
                level=message("level.clients", count=16),
                gain=message("gain.interval", change=1.08, low=1.07, high=1.09),
            ),
        ),
    )


def _fit(arms: tuple[str, ...], scale: int, data: float, *, fits: bool) -> DataFit:
    return DataFit(arms=arms, scale=scale, data=data, shared_buffers=512 * MB, fits=fits, hit_share=near(0.9))


def _check(arm: str, page: str, *, found: float, used: float, back: int) -> PageCheck:
    return PageCheck(
        arm=arm,
        page=page,
        runs=6,
        seen=6,
        confirmed=6,
        found=(found,),
        transparent=0.0,
        pool=used,
        used=used,
        given_back=back,
        not_given_back=6 - back,
    )
