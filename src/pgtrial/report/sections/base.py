"""What a section of the page is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pgtrial.analysis.findings import Findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """``name`` is the anchor and the template beside this file; ``build`` gives the template what it shows."""

    name: str
    title: str
    build: Callable[[Findings], Mapping[str, object]]
