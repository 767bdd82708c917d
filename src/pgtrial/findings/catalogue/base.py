"""What an entry of the catalogue is made of."""

from dataclasses import dataclass

from pgtrial.model.caveat import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Plural:
    """A template in two forms, of which the number ``by`` among the values decides."""

    one: str
    many: str
    by: str


# Several are sentences that follow each other.
Template = str | Plural | tuple[str, ...]


def plural(one: str, many: str, /, by: str = "count") -> Plural:
    """Catalogues of the languages have both forms, and as many as their grammar has."""
    return Plural(one=one, many=many, by=by)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The words of one code: its sentence, and for a caveat also what to do, how grave it is, and when it is raised.

    The code of a variant is that of the caveat, a dot, and a name ("swapping.meant"): what it leaves out is as in the
    entry of the caveat itself. ``when`` is for the table in docs/caveats.md, which is in English.
    """

    text: Template = ""
    hint: Template = ""
    severity: Severity | None = None
    when: str = ""
