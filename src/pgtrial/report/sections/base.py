"""What a section of the page is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pgtrial.findings.findings import Findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """``name`` is the anchor and the template beside this file; ``build`` gives the template what it shows.

    ``is_shown`` is false where there is nothing to say and the section is better left out; ``is_open`` where the page
    folds it until somebody wants to read it.
    """

    name: str
    title: str
    build: Callable[[Findings], Mapping[str, object]]
    is_shown: Callable[[Findings], bool] = lambda findings: True
    is_open: Callable[[Findings], bool] = lambda findings: False


def always(findings: Findings) -> bool:
    """Of a section that the page never folds."""
    return True
