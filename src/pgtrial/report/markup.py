"""Texts of templates: in the language in use, and as markup.

A template may give markup as a value, ``tr("The table {table} has it.", table="checks" | code)``; everything else in a
text, and the text itself, is escaped. Apostrophes are not: attributes have quotation marks.
"""

from markupsafe import Markup, escape

from pgtrial.language import ntr, ptr, tr
from pgtrial.safe_text import make_visible
from pgtrial.units import tie_units


def tr_markup(text: str, /, **values: object) -> Markup:
    return _fill(tr(text), values)


def ptr_markup(context: str, text: str, /, **values: object) -> Markup:
    return _fill(ptr(context, text), values)


def ntr_markup(one: str, many: str, count: int, /, **values: object) -> Markup:
    return _fill(ntr(one, many, count, **{name: f"{{{name}}}" for name in values}), values)


def tie_markup(text: str) -> str:
    """Numbers and their units kept together; markup stays markup."""
    tied = tie_units(str(text))
    return Markup(tied) if isinstance(text, Markup) else tied


def code(text: str) -> Markup:
    return Markup("<code>{}</code>").format(text)


def _fill(text: str, values: dict[str, object]) -> Markup:
    """Values in their places, hidden characters in them written out."""
    template = Markup(str(escape(text)).replace("&#39;", "'"))
    shown = {name: make_visible(value, keep="\n\t") if type(value) is str else value for name, value in values.items()}
    return template.format(**shown) if values else template
