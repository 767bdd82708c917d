"""Hide names from a model, and restore them in its text.

It hides names that reveal whose system it is: of the experiment, of own scenarios, tables, databases, users, hosts and
addresses, paths, and on request the arms. A pseudonym has no digit, so that no check takes it for a number, and the
same findings always give the same ones. Names are looked for in English sentences, and hidden in every language.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pgtrial.experiment_file.workload_table import MIX_SCENARIOS
from pgtrial.export.redaction import HOSTS, IPV4
from pgtrial.findings.findings import Findings
from pgtrial.narrate.facts import ToldFact
from pgtrial.safe_text import SECRETS

_BUILT_IN = frozenset(name for names in MIX_SCENARIOS.values() for name in names)
_TARGET_NAMES = frozenset({"host", "address", "server", "database", "user"})
# Settings whose value is a name: of a file, a command, a role, a host, a schema.
_NAMING = re.compile(
    r"path|librar|conninfo|command|_name|names|address|director|_file|user|role|tablespace|host|database|slot|authoriz"
)
# Such a name may be a number, or a word of a sentence where its kind is no rare one, and is hidden only in quotes.
_LIKE_A_NUMBER = re.compile(r"\d+(?:\.\d+)?\s?[A-Za-z%]*")
_LIKE_A_WORD = re.compile(r"[a-z]{1,12}")
_MAY_BE_WORDS = frozenset({"arm", "name", "value"})
_NO_NAME = re.compile(r"[-+]?\d[\d.]*\s?[A-Za-z%]*|on|off|yes|no|true|false|default|auto|always|never|none|")
_OPENING, _CLOSING = '[“«"]', '[”»"]'
_FOUND_IN_TEXT: tuple[tuple[str, re.Pattern[str]], ...] = (
    *(("secret", pattern) for pattern in SECRETS),
    *(("host", pattern) for pattern in HOSTS),
    ("address", re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+\b")),
    ("address", re.compile(r"\b(?:postgres(?:ql)?|https?)://[^\s”»\"]+")),
    ("address", IPV4),
    ("address", re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}(?![\w:])")),
    ("host", re.compile(r"(?<![\w.])[A-Za-z][\w-]*(?:\.[A-Za-z][\w-]*)+\.[a-z]{2,}(?![\w.])")),
    ("path", re.compile(r"(?<![\w<.])/(?:[\w.@+-]+/)*[\w.@+-]+")),
    ("table", re.compile(r"\bauto(?:vacuum|analyze) of ([\w.$-]*[\w$])")),
    ("name", re.compile(rf"{_OPENING}([^\s“”«»\"]+){_CLOSING}")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pseudonyms:
    """Pairs of a name and what stands for it, the longest name first."""

    pairs: tuple[tuple[str, str], ...] = ()

    def hide(self, text: str) -> str:
        """The text without the names; a name that is an everyday word is replaced in quotes only."""
        for name, pseudonym in self.pairs:
            pattern = re.escape(name)
            if _is_everyday(name, pseudonym):
                text = re.sub(rf"(?<={_OPENING}){pattern}(?={_CLOSING})", pseudonym, text)
            else:
                text = re.sub(rf"(?<!\w){pattern}(?!\w)", pseudonym, text)
        return text

    def restore(self, text: str) -> str:
        """The text with the names, also where the pseudonym was written with a backslash or in other letters."""
        for name, pseudonym in self.pairs:
            kind, _, letter = pseudonym.rpartition("_")
            written = name.replace("\\", r"\\")  # a backslash would be read as a reference to a group
            text = re.sub(rf"(?<!\w){kind}\\?_{letter}(?!\w)", written, text, flags=re.IGNORECASE)
        return text


def choose_pseudonyms(findings: Findings, facts: Sequence[ToldFact], *, with_arms: bool) -> Pseudonyms:
    """Pseudonyms for all names that are hidden, by their kind, in the order of the findings."""
    texts = [text for fact in facts for text in (fact.text, fact.value)]
    everything = "\n".join(texts)
    pseudonyms: dict[str, str] = {}
    counts: dict[str, int] = {}
    for kind, name in (*_declared(findings, with_arms=with_arms), *_found(findings, texts)):
        if name in pseudonyms or not name:
            continue
        pseudonym = ""
        while not pseudonym or pseudonym in everything:
            counts[kind] = counts.get(kind, 0) + 1
            pseudonym = f"{kind}_{_letters(counts[kind])}"
        pseudonyms[name] = pseudonym
    return Pseudonyms(pairs=tuple(sorted(pseudonyms.items(), key=lambda pair: -len(pair[0]))))


def _declared(findings: Findings, *, with_arms: bool) -> Iterator[tuple[str, str]]:
    """Kind and name of what the findings name in fields of their own."""
    experiment = findings.experiment
    yield "experiment", experiment.name
    for scenario in experiment.scenarios:
        if scenario not in _BUILT_IN:
            yield "scenario", scenario
    for name, value in experiment.target.items():
        if name in _TARGET_NAMES or "/" in value:
            yield "place", value
    for arm in experiment.arms:
        if with_arms and arm.role != "placebo":
            yield "arm", arm.name
        for settings in (arm.settings, *arm.knobs.values()):
            yield from (("value", value) for name, value in settings.items() if _is_name(name, value))
    for setting in findings.settings:
        if setting.differs:
            yield from (("value", value) for value in setting.values.values() if _is_name(setting.name, value))


def _is_everyday(name: str, pseudonym: str) -> bool:
    is_word = pseudonym.rpartition("_")[0] in _MAY_BE_WORDS and _LIKE_A_WORD.fullmatch(name)
    return bool(is_word or _LIKE_A_NUMBER.fullmatch(name))


def _is_name(setting: str, value: str) -> bool:
    return bool(_NAMING.search(setting)) and not _NO_NAME.fullmatch(value)


def _found(findings: Findings, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """What looks like a name in sentences. Names that pgtrial or PostgreSQL gives, and those of arms, stay."""
    experiment = findings.experiment
    kept = {
        *(arm.name for arm in experiment.arms),
        *(setting.name for setting in findings.settings),
        *(name for arm in experiment.arms for name in arm.settings),
        *(name for arm in experiment.arms for table in arm.knobs.values() for name in table),
        *experiment.scenarios,
    }
    for text in texts:
        for kind, pattern in _FOUND_IN_TEXT:
            for match in pattern.finditer(text):
                name = match[1] if pattern.groups else match[0]
                if name not in kept:
                    yield kind, name


def _letters(count: int) -> str:
    """1 is A, 26 is Z, 27 is AA."""
    text = ""
    while count:
        count, rest = divmod(count - 1, 26)
        text = chr(ord("A") + rest) + text
    return text
