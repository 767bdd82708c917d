"""What huge pages gain, in sentences."""

from collections.abc import Mapping, Sequence

from pgtrial.analysis.causes.words import join
from pgtrial.analysis.observations import ALL
from pgtrial.analysis.page_findings import DataFit, PageGain
from pgtrial.model.verdict import Decision
from pgtrial.units import format_bytes, format_change


def gain_text(gain: PageGain) -> str:
    """ "+6.1 % (+4.0 % to +8.2 %)"."""
    if gain.ratio is None:
        return "–"
    change = format_change(gain.ratio)
    if gain.low is None or gain.high is None:
        return change
    return f"{change} ({format_change(gain.low)} to {format_change(gain.high)})"


def data_text(fit: DataFit) -> str:
    """ "scale 10, about 150 MB"."""
    size = "" if fit.data is None else f", about {format_bytes(fit.data)}"
    return f"scale {fit.scale}{size}" if fit.scale is not None else "the data"


def tell_pages(gains: Sequence[PageGain], fits: Sequence[DataFit], labels: Mapping[int, str]) -> str:
    """The largest gain, and what remains of it where the data no longer fit in shared buffers."""
    sentences = [_tell_largest(gains, labels)]
    for page in dict.fromkeys(gain.page for gain in gains):
        sentences.append(_tell_fit(page, gains, fits))
    sentences.append(_tell_boundary(fits))
    return " ".join(sentence for sentence in sentences if sentence)


def _tell_largest(gains: Sequence[PageGain], labels: Mapping[int, str]) -> str:
    """Of the cells, not of their mean; only a gain that its interval shows to be one."""
    clear = [gain for gain in gains if gain.ratio is not None and gain.low is not None and gain.low > 1]
    cells = [gain for gain in clear if gain.load_level != ALL] or clear
    if not cells:
        return "In no cell is a gain from huge pages shown."
    best = max(cells, key=lambda gain: gain.ratio or 0.0)
    where = "" if best.load_level == ALL else f" with {labels[int(best.load_level)]}"
    scale = "" if best.scale is None else f" at scale {best.scale}"
    small = ", which is less than matters here" if best.decision is Decision.EQUIVALENT else ""
    return f"Pages of {best.page} gain most{scale}{where}: {gain_text(best)}{small}."


def _tell_fit(page: str, gains: Sequence[PageGain], fits: Sequence[DataFit]) -> str:
    """The gain over all load levels, of data that fit and of data that do not."""
    over_all = [gain for gain in gains if gain.page == page and gain.load_level == ALL]
    told = {}
    for does_fit in (True, False):
        scales = {fit.scale for fit in fits if fit.fits is does_fit}
        told[does_fit] = [f"{gain_text(gain)} at scale {gain.scale}" for gain in over_all if gain.scale in scales]
    if not told[True] or not told[False]:
        return ""
    return (
        f"Over all load levels pages of {page} change throughput by {join(told[True])}, where the data fit in "
        f"shared_buffers, and by {join(told[False])}, where they do not."
    )


def _tell_boundary(fits: Sequence[DataFit]) -> str:
    """Between which sizes the data stop fitting."""
    inside = [fit for fit in fits if fit.fits]
    outside = [fit for fit in fits if fit.fits is False]
    if not inside or not outside:
        return ""
    buffers = dict.fromkeys(format_bytes(fit.shared_buffers) for fit in fits if fit.shared_buffers is not None)
    return (
        f"The data stop fitting in shared_buffers ({join(list(buffers))}) between {data_text(inside[-1])}, "
        f"and {data_text(outside[0])}."
    )
