"""What a section of a comparison's page is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Generic[Found]):
    """``name`` is the anchor, ``template`` a file beside this one; ``build`` gives the template what it shows.

    ``is_shown`` is false where there is nothing to say.
    """

    name: str
    title: str
    template: str
    build: Callable[[Found], Mapping[str, object]]
    is_shown: Callable[[Found], bool] = lambda found: True
