"""What huge pages gain, and where the data stop fitting in shared buffers."""

from pgtrial.findings.catalogue.base import Entry
from pgtrial.language import N_

PAGE_GAINS = {
    "gain.unknown": Entry(text="–"),
    "gain.change": Entry(text="{change:change}"),
    "gain.interval": Entry(text=N_("{change:change} ({low:change} to {high:change})")),
    "gain.at-scale": Entry(text=N_("{gain} at scale {scale}")),
    "page-gain.none": Entry(text=N_("In no cell is a gain from huge pages shown.")),
    "page-gain.most": Entry(text=N_("Pages of {page} gain most: {gain}")),
    "page-gain.most-with-level": Entry(text=N_("Pages of {page} gain most with {level}: {gain}")),
    "page-gain.most-at-scale": Entry(text=N_("Pages of {page} gain most at scale {scale}: {gain}")),
    "page-gain.most-at-both": Entry(text=N_("Pages of {page} gain most at scale {scale} with {level}: {gain}")),
    "page-gain.matters": Entry(text="{gain}."),
    "page-gain.is-small": Entry(text=N_("{gain}, which is less than matters here.")),
    "page-gain.by-fit": Entry(
        text=N_(
            "Over all load levels pages of {page} change throughput by {inside:and}, where the data fit in "
            "shared_buffers, and by {outside:and}, where they do not."
        )
    ),
}
PAGE_DATA = {
    "page-data.unknown": Entry(text=N_("the data")),
    "page-data.scale": Entry(text=N_("scale {scale}")),
    "page-data.size": Entry(text=N_("scale {scale}, about {bytes:bytes}")),
    "page-data.boundary": Entry(
        text=N_(
            "The data stop fitting in shared_buffers ({buffers:and bytes}) between {inside}, and {outside}.",
        )
    ),
}
TRANSLATIONS = {
    "translations.not-counted": Entry(text=N_("The misses were not counted in these runs.")),
}
