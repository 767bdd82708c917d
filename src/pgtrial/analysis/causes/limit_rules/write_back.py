"""Write-back throttling: the kernel slows down who writes, because too many pages are dirty."""

from collections.abc import Iterator

from pgtrial.analysis.causes import limit_thresholds as limits
from pgtrial.analysis.causes.limit_rules.base import Scene, accuse, find_clue
from pgtrial.analysis.causes.limit_rules.parts import is_write
from pgtrial.analysis.causes.words import percent
from pgtrial.findings.causes import Resource, Suspect
from pgtrial.language import tr
from pgtrial.units import format_bytes


def suspect_write_back(scene: Scene) -> Iterator[Suspect | None]:
    """Writes wait while the pages that are dirty or being written are more than the kernel lets grow freely.

    That is half-way between the background limit and the limit: from there on balance_dirty_pages makes writers sleep
    (mm/page-writeback.c, dirty_freerun_ceiling). It has no counter, so the number of pages is what tells.
    """
    limit, background = scene.median("dirty.threshold"), scene.median("dirty.background")
    free_run = (1 + background / limit) / 2 if limit and background is not None else limits.FREE_RUN
    time, share = scene.share_above("dirty.share", free_run), scene.share(is_write)
    dirty = scene.median("dirty.share")
    yield accuse(
        Resource.WRITE_BACK,
        detail=tr("limit of {limit}", limit=format_bytes(limit)) if limit else "",
        needs=(
            find_clue(
                *("dirty.share", time, "share", limits.THROTTLED_TIME),
                tr(
                    "in {share} of the seconds so many pages are dirty that the kernel slows down writers (mostly "
                    "{dirty} of its limit)",
                    share=percent(time or 0),
                    dirty=percent(dirty or 0),
                ),
            ),
            find_clue(
                *("wait.IO", share, "share", limits.WRITE_SHARE),
                tr(
                    "{share} of the latency is writing, most of it {event}",
                    share=percent(share or 0),
                    event=scene.largest(is_write),
                ),
            ),
        ),
    )
