"""What huge pages gain, in sentences."""

from collections.abc import Mapping, Sequence

from pgtrial.analysis.causes.words import join
from pgtrial.analysis.observations import ALL
from pgtrial.findings.pages import DataFit, PageGain
from pgtrial.language import N_, tr
from pgtrial.model.verdict import Decision
from pgtrial.units import format_bytes, format_change


def gain_text(gain: PageGain) -> str:
    """ "+6.1 % (+4.0 % to +8.2 %)"."""
    if gain.ratio is None:
        return "–"
    change = format_change(gain.ratio)
    if gain.low is None or gain.high is None:
        return change
    return tr("{change} ({low} to {high})", change=change, low=format_change(gain.low), high=format_change(gain.high))


def data_text(fit: DataFit) -> str:
    """ "scale 10, about 150 MB"."""
    if fit.scale is None:
        return tr("the data")
    if fit.data is None:
        return tr("scale {scale}", scale=fit.scale)
    return tr("scale {scale}, about {bytes}", scale=fit.scale, bytes=format_bytes(fit.data))


def tell_pages(gains: Sequence[PageGain], fits: Sequence[DataFit], labels: Mapping[int, str]) -> str:
    """The largest gain, and what remains of it where the data no longer fit in shared buffers."""
    sentences = [_tell_largest(gains, labels)]
    for page in dict.fromkeys(gain.page for gain in gains):
        sentences.append(_tell_fit(page, gains, fits))
    sentences.append(_tell_boundary(fits))
    return " ".join(sentence for sentence in sentences if sentence)


# By whether there are several data sizes, and whether it is a single load level.
_LARGEST = {
    (True, True): N_("Pages of {page} gain most at scale {scale} with {level}: {gain}"),
    (True, False): N_("Pages of {page} gain most at scale {scale}: {gain}"),
    (False, True): N_("Pages of {page} gain most with {level}: {gain}"),
    (False, False): N_("Pages of {page} gain most: {gain}"),
}


def _tell_largest(gains: Sequence[PageGain], labels: Mapping[int, str]) -> str:
    """Of the cells, not of their mean; only a gain that its interval shows to be one."""
    clear = [gain for gain in gains if gain.ratio is not None and gain.low is not None and gain.low > 1]
    cells = [gain for gain in clear if gain.load_level != ALL] or clear
    if not cells:
        return tr("In no cell is a gain from huge pages shown.")
    best = max(cells, key=lambda gain: gain.ratio or 0.0)
    told = {
        "page": best.page,
        "gain": gain_text(best),
        "level": "" if best.load_level == ALL else labels[int(best.load_level)],
        "scale": best.scale,
    }
    found = tr(_LARGEST[best.scale is not None, best.load_level != ALL], **told)
    if best.decision is Decision.EQUIVALENT:
        return tr("{gain}, which is less than matters here.", gain=found)
    return f"{found}."


def _tell_fit(page: str, gains: Sequence[PageGain], fits: Sequence[DataFit]) -> str:
    """The gain over all load levels, of data that fit and of data that do not."""
    over_all = [gain for gain in gains if gain.page == page and gain.load_level == ALL]
    told = {}
    for does_fit in (True, False):
        scales = {fit.scale for fit in fits if fit.fits is does_fit}
        told[does_fit] = [
            tr("{gain} at scale {scale}", gain=gain_text(gain), scale=gain.scale)
            for gain in over_all
            if gain.scale in scales
        ]
    if not told[True] or not told[False]:
        return ""
    return tr(
        "Over all load levels pages of {page} change throughput by {inside}, where the data fit in shared_buffers, and "
        "by {outside}, where they do not.",
        page=page,
        inside=join(told[True]),
        outside=join(told[False]),
    )


def _tell_boundary(fits: Sequence[DataFit]) -> str:
    """Between which sizes the data stop fitting."""
    inside = [fit for fit in fits if fit.fits]
    outside = [fit for fit in fits if fit.fits is False]
    if not inside or not outside:
        return ""
    buffers = dict.fromkeys(format_bytes(fit.shared_buffers) for fit in fits if fit.shared_buffers is not None)
    return tr(
        "The data stop fitting in shared_buffers ({buffers}) between {inside}, and {outside}.",
        buffers=join(list(buffers)),
        inside=data_text(inside[-1]),
        outside=data_text(outside[0]),
    )
