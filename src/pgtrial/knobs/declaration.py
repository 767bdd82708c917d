"""What a knob says about itself: every list of knobs, from the file's checks to the documentation, is made of this."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import ClassVar


class Scope(StrEnum):
    """What a knob changes; the text says in a plan when that takes effect."""

    SETTINGS = "at the start"  # the server's own settings
    CLUSTER = "own cluster"  # what a cluster is made with
    DATABASE = "before load"  # what is in the load's database
    LOAD = "by the load"
    HOST = "journaled"  # anything beside a server of our own: has to be allowed, and is put back


class Among(StrEnum):
    """What becomes of it where the clusters of several arms are up on one machine."""

    OWN = "each has its own"
    SWITCHED = "switched between slices"  # the machine has one value, which can be changed while servers run
    STANDING = "one for all"  # the machine has one value for as long as a server runs


class EffectTiming(StrEnum):
    """How long an effect takes to be whole: none, a known time, or as long as it takes to build up state."""

    AT_ONCE = "at once"
    SECONDS = "seconds"
    BUILDS_UP = "builds up"


class Shared(StrEnum):
    """What twins on one machine have in common, and through which an effect leaks from one to the other."""

    PAGE_CACHE = "page cache"
    DIRTY_PAGES = "dirty pages"
    DEVICE_QUEUE = "device queue"
    MEMORY = "free memory"


ON_DEVICE = (Shared.PAGE_CACHE, Shared.DIRTY_PAGES, Shared.DEVICE_QUEUE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How the settings that match one of ``patterns`` settle, and why, in a clause.

    ``seconds`` is how long it takes after the setting has changed, for what is not at once, or not quite. State that
    is not in ``shares`` is the cluster's own: it stays as it is while the cluster stands still. ``by_clock``: timed by
    the clock, which goes on meanwhile. ``at_run_time``: changed under a running server and its sessions, it holds for
    all that they do from then on, not only for what is begun anew. ``in_group``: in a control group whose memory is
    limited it acts on that group's pages alone, while processes of the group ask for memory.
    """

    patterns: tuple[str, ...] = ("*",)
    timing: EffectTiming
    reason: str
    seconds: float = 0.0
    shares: tuple[Shared, ...] = ()
    by_clock: bool = False
    at_run_time: bool = False
    in_group: bool = False


UNKNOWN = Rule(timing=EffectTiming.BUILDS_UP, reason="is not known to pgtrial, and may build up state of its own")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is known of an experiment before its runs, as far as it says whether a setting will have anything to do.

    ``values`` are those of the setting in the arms; ``data`` are the bytes of an arm's data, ``seconds`` the measured
    time of a run, and ``swap`` the bytes of the machine's swap space, None where that is not known. ``writes``: the
    load may change data. ``sorts``: it may sort or hash more than a few rows.
    """

    values: tuple[str | None, ...]
    data: float
    seconds: float
    writes: bool
    sorts: bool
    swap: int | None


def never_known(outlook: Outlook) -> str:
    """Of settings of which the runs alone tell."""
    return ""


def idle_without_writes(outlook: Outlook) -> str:
    return "" if outlook.writes else "the load changes no data"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfGroup:
    """Where the server's control group has the setting for itself: the series of its ``value``, and by which
    ``metrics`` of the group one sees that it acted.
    """

    value: str
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acts:
    """What shows that settings that match ``patterns`` had something to act on.

    In some second of some arm one of ``metrics`` (model/series.py; of all objects) reached ``least``, in its base unit,
    or ``of_value`` of the setting, which is a limit: of the lowest that an arm has.
    ``code`` says in the catalogue (findings/catalogue/engagement.py) what it is that happens, and what makes it happen.
    Without metrics the setting acts in every run by what it is: it is part of the load or of the data. Where the value
    of ``in_group`` was sampled, it governs and not that of the machine, and its metrics count. ``idle`` says before the
    runs, in a clause, why there will be nothing to act on, "" where that is not known.
    """

    patterns: tuple[str, ...] = ("*",)
    code: str
    metrics: tuple[str, ...] = ()
    least: float = 0.0
    of_value: float = 0.0
    in_group: OfGroup | None = None
    idle: Callable[[Outlook], str] = never_known


ALWAYS = Acts(code="always")


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """A knob in the words of the documentation's table."""

    sets: str
    takes_effect: str
    rights: str
    verified: str
    undone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSettings:
    """PostgreSQL ``settings`` that ``key`` sets by itself, and that an arm cannot set beside it.

    ``shown`` are others that tell what became of it; ``hint`` says what to do about both being set.
    """

    key: str
    settings: tuple[str, ...]
    hint: str
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusive:
    """Two keys of a table that one arm cannot have. ``unless_zero``: it can where one of them is "0"."""

    keys: tuple[str, str]
    message: str
    hint: str
    unless_zero: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """A ``key`` that means nothing without ``other``, or without any other key of the table where that is "".

    ``message`` may have "{value}" for the key's. ``in_each_arm``: each arm that has the key needs the other; else it is
    enough if one does, as where several inherit the key.
    """

    key: str
    message: str
    hint: str
    other: str = ""
    in_each_arm: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting:
    """Lines that make settings last, for a person to put in their ``place``; commands make them hold from ``then`` on.

    ``comment`` begins a comment there.
    """

    place: str
    lines: tuple[str, ...]
    then: tuple[str, ...] = ()
    comment: str = "#"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why arms whose table has ``key``, or any where that is "", cannot have ``methods``; ``reason`` in a clause.

    ``unless`` is a value of the key that does not count.
    """

    methods: tuple[str, ...]
    reason: str
    key: str = ""
    unless: str = ""

    def applies_to(self, table: Mapping[str, str]) -> bool:
        return bool(table) if not self.key else table.get(self.key, self.unless) != self.unless


class Knob:
    """One table of an arm. What is left out here is taken to be what asks for most care."""

    name: ClassVar[str]  # of its table in the experiment file
    about: ClassVar[About]
    scope: ClassVar[Scope] = Scope.HOST
    among_twins: ClassVar[Among] = Among.STANDING
    rules: ClassVar[Sequence[Rule]] = (UNKNOWN,)  # the first that matches holds; the last matches everything
    acts: ClassVar[Sequence[Acts]] = ()  # the first that matches holds; of what none matches there is no evidence
    facts: ClassVar[tuple[str, ...]] = ()  # patterns of the facts of a machine or server that it changes
    cluster_keys: ClassVar[tuple[str, ...]] = ()  # what a cluster is made with
    sql_keys: ClassVar[tuple[str, ...]] = ()  # whose values are statements
    writing_keys: ClassVar[tuple[str, ...]] = ()  # change what is in the load's database
    unvaried_keys: ClassVar[Mapping[str, str]] = {}  # that cannot be a factor, and what to do instead
    keys_tell_all: ClassVar[bool] = False  # a key is known without the knob's name, as "work_mem" is
    intends: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # code of a caveat to patterns of keys: arms ask for that
    about_pages: ClassVar[bool] = False  # it decides which pages memory is made of, which are looked at under load
    not_on_server: ClassVar[str] = ""  # why a server that is there cannot have it, in a clause
    needs_server: ClassVar[bool] = False  # without which it means nothing
    keys_of_server: ClassVar[tuple[str, ...]] = ()  # the same of some keys only
    needs_socket: ClassVar[bool] = False  # between load and server, or in both: the load is on the server's machine
    restart_keys: ClassVar[tuple[str, ...]] = ()  # take effect on a server that is there when it is restarted
    own_settings: ClassVar[tuple[OwnSettings, ...]] = ()
    exclusive: ClassVar[tuple[Exclusive, ...]] = ()
    needs: ClassVar[tuple[Needs, ...]] = ()
    refusals: ClassVar[tuple[Refusal, ...]] = ()

    def standard_key(self, key: str) -> str:
        """The one name of a key that can be written in several ways."""
        return key

    def find_wrong_key(self, key: str) -> tuple[str, str] | None:
        """Message and hint where a table takes any key, but not this one."""
        return None

    def find_refused(self, key: str, value: str) -> tuple[str, str] | None:
        """Message and hint where a key that the table takes, or this value of it, is never set."""
        return None

    def rule_of(self, key: str) -> Rule:
        """How a key settles, or for a list one of its elements."""
        lower = key.lower()
        return next(rule for rule in self.rules if matches(lower, [pattern.lower() for pattern in rule.patterns]))

    def acts_of(self, key: str) -> Acts | None:
        """By what one sees that a key had something to act on; None where nothing is declared."""
        lower = key.lower()
        return next((each for each in self.acts if matches(lower, [p.lower() for p in each.patterns])), None)

    def make_last(self, values: Mapping[str, str]) -> Sequence[Lasting]:
        """How an administrator makes a table's values last; () for what lasts anyway, or only in an experiment.

        Sources: ALTER SYSTEM, sysctl.d(5), tmpfiles.d(5), udev(7), systemd.resource-control(5).
        """
        return ()

    def rule_among(self, key: str, values: Sequence[str]) -> Rule:
        """The same where it depends on the values of the arms that differ in the key."""
        return self.rule_of(key)

    def can_be_switched(self, key: str) -> bool:
        """Whether a key can be set back and forth under a running server, each time with its whole effect."""
        return self.rule_of(key).at_run_time

    def made_with(self, table: Mapping[str, str]) -> tuple[str, ...]:
        """Keys that the cluster of an arm with that table is made with, whether or not the table has them."""
        return self.cluster_keys

    def label_of(self, key: str) -> str:
        """A key in a sentence or a table."""
        return key if self.keys_tell_all else f"{self.name} {key}"

    def changes_fact(self, key: str, fact: str) -> bool:
        """Whether setting a key may change a fact of the fingerprint ("group/name")."""
        return matches(fact, self.facts)


def matches(text: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)
