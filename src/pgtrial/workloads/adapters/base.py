"""How pgtrial speaks to load generators that do not know it: what they are called with, and what their output means."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

# lib/pq of Go panics at this variable (1.10), which pins the address of an existing server's host.
WITHOUT_ADDRESS = ("env", "--unset=PGHOSTADDR")

# Of a line of a program's output one as store/command_line.py reads it, None of one that tells of no request.
Translate = Callable[[str], str | None]
Files = Mapping[str, str]  # text by name


def as_it_is(line: str) -> str | None:
    return line


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A file that a program writes at its end: its name ends with ``suffix``, ``read`` translates its lines."""

    suffix: str
    read: Callable[[Iterable[str]], Iterator[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """``name`` is that of ``results`` in the experiment file.

    ``arrange`` adds to a command what it has to be called with, as words that may have facts in braces; ``environment``
    is added to that of the program. ``adds`` are files of ours beside those of the experiment, ``fill`` says which of
    these may have facts in braces, and ``objection`` what is wrong with one of them, which the words of commands may
    name, "" if nothing is. What ``is_noise`` of its standard error tells nobody anything.

    ``translator`` makes a function for one start, which gets the files of the experiment and may remember lines.
    ``good_ends`` are statuses that say no more than that it was told to end. One that ``ends_itself`` does not work
    until it is told to, but for {seconds} or as long as it has work; what it has ``left`` is read then. One that
    ``begins_silently`` works from its start on, and says so by no line. Lines of one that ``tells_no_time`` are of the
    time at which they are read. Lines of its standard error are translated as well where these ``errors_tell`` what
    later lines mean.
    """

    name: str
    arrange: Callable[[Sequence[str]], Sequence[str]] = tuple
    environment: Callable[[Sequence[str]], Mapping[str, str]] = lambda _command: {}
    adds: Callable[[], Files] = dict
    fill: Callable[[str], bool] = lambda _name: False
    objection: Callable[[str, str, Collection[str]], str] = lambda _name, _text, _words: ""
    translator: Callable[[Files], Translate] = lambda _files: as_it_is
    good_ends: frozenset[int] = field(default_factory=frozenset)
    ends_itself: bool = False
    begins_silently: bool = False
    tells_no_time: bool = False
    left: Left | None = None
    errors_tell: bool = False
    is_noise: Callable[[str], bool] = lambda _line: False
