"""Caveats: messages about the trust that a number deserves, with what to do about it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field, field_validator, model_serializer, model_validator

from pgtrial.findings.catalogue import ENTRIES, VERBATIM_CAVEAT
from pgtrial.findings.catalogue.base import Entry
from pgtrial.findings.message import Message, Value, check_values, is_known, read_values, units_of, verbatim
from pgtrial.findings.record import Record
from pgtrial.findings.rendering import render
from pgtrial.language import ENGLISH, find_language, speak
from pgtrial.model.caveat import Severity
from pgtrial.safe_text import parse_json

# Codes of what is said wherever a verdict is: that it is not the first attempt, of runs that do not count, of a host
# that is unlike the others, and of an effect whose size is not known.
BESIDE_VERDICT = frozenset(
    {
        *("another-attempt", "repeated-claim", "unequal-failures", "interrupted-runs", "other-effect-on-host"),
        "effect-grows-with-slices",
    }
)
_VERBATIM = "verbatim"  # variant of a caveat whose text and hint are its values


class CaveatFinding(Record):
    """``code`` is stable; ``variant`` tells sentences of one caveat apart. Written with text and hint in English.

    A caveat of findings of version 1, or of a code that this version does not have, keeps the words it came with.
    """

    code: str
    variant: str = ""
    severity: Severity
    values: dict[str, Any] = Field(default_factory=dict)  # of Value
    runs: tuple[int, ...] = ()  # ids of the runs it is about

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "text" not in given:
            return given
        read = {name: value for name, value in given.items() if name not in ("units", "text", "hint")}
        is_sentence = "values" not in given  # of version 1, which has no variants by which to find its words
        if is_sentence or not is_known(_key(given.get("code"), given.get("variant", "")), given["values"]):
            read |= {"variant": _VERBATIM, "values": {"text": given["text"], "hint": given.get("hint", "")}}
        return read

    @field_validator("values", mode="before")
    @classmethod
    def _read_values(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        return read_values(given)

    @model_validator(mode="after")
    def _check(self) -> "CaveatFinding":
        if self.variant != _VERBATIM:
            check_values(_key(self.code, self.variant), self.values)
        return self

    @model_serializer(mode="plain")
    def _write(self) -> dict[str, Any]:
        with speak(find_language(ENGLISH)):
            return {
                "code": self.code,
                "variant": self.variant,
                "severity": self.severity,
                "values": self.values,
                "units": units_of(self._entry, self.values),
                "text": self.text,
                "hint": self.hint,
                "runs": self.runs,
            }

    @property
    def _entry(self) -> Entry:
        return VERBATIM_CAVEAT if self.variant == _VERBATIM else ENTRIES[_key(self.code, self.variant)]

    @property
    def message(self) -> Message:
        """What limits the trust, for use inside of another message."""
        if self.variant == _VERBATIM:
            return verbatim(self.values["text"])
        return Message(code=_key(self.code, self.variant), values=self.values)

    @property
    def text(self) -> str:
        """What limits the trust, in the language in use."""
        return render(self._entry.text, self.values)

    @property
    def hint(self) -> str:
        """What to do about it, in the language in use; "" where there is nothing."""
        return render(self._entry.hint, self.values)


def is_untold(caveats: Iterable[CaveatFinding]) -> bool:
    """Whether a comparison with these has no interval because arms took turns and their slices do not tell of it."""
    return any(each.code == "untold-by-slices" for each in caveats)


def caveat(
    code: str, /, *, about: Iterable[int] = (), severity: Severity | None = None, **values: Value
) -> CaveatFinding:
    """A caveat of the catalogue, "code" or "code.variant", about some runs; its severity unless another one is given.

    Raises ValueError when the catalogue has no such code, or it names other values.
    """
    check_values(code, values)
    grade = severity or ENTRIES[code].severity
    if grade is None:
        raise ValueError(f'"{code}" is no caveat: its entry has no severity')
    name, _, variant = code.partition(".")
    return CaveatFinding(code=name, variant=variant, severity=grade, values=values, runs=tuple(about))


def caveat_in_words(code: str, severity: Severity, text: str, hint: str = "") -> CaveatFinding:
    """A caveat whose sentences stand in no catalogue: as an older pgtrial has noted it, or one put together."""
    return CaveatFinding(code=code, variant=_VERBATIM, severity=severity, values={"text": text, "hint": hint})


def read_noted(code: str, severity: Severity, text: str, hint: str, said: str | None) -> CaveatFinding:
    """A caveat as ``said_of`` wrote it beside its sentences; by these alone where that is missing or makes no sense."""
    try:
        given = parse_json(said or "{}")
        key = _key(code, given["variant"])
        if is_known(key, given["values"]):
            found = caveat(key, severity=severity, **read_values(given["values"]))
            render(ENTRIES[key].text, found.values)
            render(ENTRIES[key].hint, found.values)
            return found
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        pass  # not as it was written: others may have written to the folder
    return caveat_in_words(code, severity, text, hint)


def said_of(caveat: CaveatFinding) -> str | None:
    """What finds its sentence in the catalogue, beside its code; None for one that has words only."""
    if caveat.variant == _VERBATIM:
        return None
    written = caveat.model_dump(mode="json")
    return json.dumps({name: written[name] for name in ("variant", "values")})


def prefix_words(caveat: CaveatFinding, prefix: str) -> CaveatFinding:
    """The caveat about something else than its runs, which the prefix names."""
    return caveat_in_words(caveat.code, caveat.severity, f"{prefix}{caveat.text}", caveat.hint)


def merge_runs(caveats: Iterable[CaveatFinding]) -> tuple[CaveatFinding, ...]:
    """One caveat for each code and values, with the runs of all of them, in the order of their first appearance."""
    merged: dict[str, CaveatFinding] = {}
    for caveat in caveats:
        key = repr((caveat.code, caveat.variant, caveat.values))
        runs = dict.fromkeys((*(merged[key].runs if key in merged else ()), *caveat.runs))
        merged[key] = caveat.model_copy(update={"runs": tuple(runs)})
    return tuple(merged.values())


def _key(code: Any, variant: str) -> Any:
    return f"{code}.{variant}" if variant else code
