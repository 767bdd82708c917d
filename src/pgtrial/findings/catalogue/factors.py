"""What a factor changes by itself and together with another one, and its best level."""

from pgtrial.findings.catalogue.base import Entry
from pgtrial.language import N_

FACTORS = {
    "factor.main.clear": Entry(
        text=N_("{factor}: {level} against {base} makes {change:change} ({low:change} to {high:change}).")
    ),
    "factor.main.unclear": Entry(
        text=N_(
            "{factor}: {level} against {base} has no clear effect ({change:change}, {low:change} to {high:change})."
        )
    ),
    "factor.main.no-interval": Entry(
        text=N_("{factor}: {level} against {base}: {change:change}, without an interval.")
    ),
    "factor.interaction.clear": Entry(
        text=N_(
            "With {other} = {other_level} the effect of {factor} = {level} is another one: its ratio is changed by "
            "{change:change} ({low:change} to {high:change}). Do not add the two up."
        )
    ),
    "factor.interaction.unclear": Entry(
        text=N_(
            "Whether {other} = {other_level} changes the effect of {factor} = {level} is not clear "
            "({change:change}, {low:change} to {high:change})."
        )
    ),
    "factor.interaction.no-interval": Entry(
        text=N_(
            "With {other} = {other_level} the ratio of {factor} = {level} is changed by {change:change}, without an "
            "interval."
        )
    ),
    "factor.best": Entry(
        text=N_("{factor} is best at {level}: every other level is worse, with {confidence:share} confidence for all.")
    ),
    "factor.best-among": Entry(
        text=N_(
            "{factor} has its best mean at {level}; with {confidence:share} confidence the best level is one of "
            "{among:list}."
        )
    ),
}
