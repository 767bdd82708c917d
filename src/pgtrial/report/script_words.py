"""What the scripts of the page need of the language in use: their texts, and how numbers are written and read."""

from pgtrial.language import ENGLISH, decimal_sign, ptr, spoken, tr


def script_words() -> dict[str, object]:
    """Nothing for English, which the scripts have themselves.

    ``texts`` are theirs, by the English text. Tables sort by numbers as cells have them: with ``decimal``, with
    ``units`` (by name in the language, to what it is in base units), after ``range``, which begins an interval.
    ``times`` are names of units by the English ones, ``numbers`` is the locale of the charts' axes (d3-format).
    """
    if spoken() == ENGLISH:
        return {}
    return {
        "texts": {
            "Copy table": tr("Copy table"),
            "Copied": tr("Copied"),
            "Not copied: the browser does not allow it": tr("Not copied: the browser does not allow it"),
            "This chart could not be drawn: {error}": tr("This chart could not be drawn: {error}"),
        },
        "decimal": decimal_sign(),
        "units": _units(),
        "long": [ptr("unit", "min"), ptr("unit", "h")],
        "times": {"s": ptr("unit", "s"), "min": ptr("unit", "min"), "h": ptr("unit", "h")},
        "range": tr("{low} to {high}").partition("{low}")[0],
        "numbers": {"decimal": decimal_sign(), "thousands": "\u00a0", "grouping": [3], "currency": ["", ""]},
    }


def _units() -> dict[str, float]:
    return {
        ptr("unit", "µs"): 1e-6,
        ptr("unit", "ms"): 1e-3,
        ptr("unit", "s"): 1,
        ptr("unit", "min"): 60,
        ptr("unit", "h"): 3600,
        ptr("unit", "B"): 1,
        ptr("unit", "kB"): 1024,
        ptr("unit", "MB"): 1024**2,
        ptr("unit", "GB"): 1024**3,
        ptr("unit", "TB"): 1024**4,
    }
