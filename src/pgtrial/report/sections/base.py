"""What a section of the page is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from pgtrial.findings.findings import Findings

_Shown = TypeVar("_Shown")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSection(Generic[_Shown]):
    """``name`` is the anchor and the template; ``build`` gives the template what it shows of the page's subject.

    ``is_shown`` is false where there is nothing to say and the section is better left out; ``is_open`` where the page
    folds it until somebody wants to read it.
    """

    name: str
    title: str
    build: Callable[[_Shown], Mapping[str, object]]
    is_shown: Callable[[_Shown], bool] = lambda shown: True
    is_open: Callable[[_Shown], bool] = lambda shown: False


class Section(PageSection[Findings]):
    """Of an experiment's report; its template is beside this file."""

    __slots__ = ()


def always(findings: Findings) -> bool:
    """Of a section that the page never folds."""
    return True
