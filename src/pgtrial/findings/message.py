"""What is said, as data: a code with named values, whose words stand in the catalogue."""

from collections.abc import Mapping
from typing import Annotated, Any, Union

from pydantic import BeforeValidator, Field, field_validator, model_serializer, model_validator

from pgtrial.findings.catalogue import ENTRIES, VERBATIM
from pgtrial.findings.catalogue.base import Entry
from pgtrial.findings.record import Record
from pgtrial.findings.rendering import placeholders, render, unit_of
from pgtrial.language import ENGLISH, find_language, speak

# A number in base units, a text that is a name (arm, setting, program), a message, or several of these.
Value = Union[str, float, bool, None, "Message", tuple["Value", ...]]


class Message(Record):
    """``code`` finds the words in the catalogue, ``values`` are what they name; ``say`` puts them together.

    Written with its units and its text in English, for readers without the catalogue. Read again it goes by code and
    values; by the text where this version has no such code, and where a text is all there is, as in findings of
    version 1.
    """

    code: str
    values: dict[str, Any] = Field(default_factory=dict)  # of Value

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        if isinstance(given, str):
            return {"code": VERBATIM, "values": {"text": given}}
        if isinstance(given, dict) and "text" in given:
            code, values = given.get("code", ""), given.get("values", {})
            if not is_known(code, values):
                return {"code": VERBATIM, "values": {"text": given["text"]}}
            return {"code": code, "values": values}
        return given

    @field_validator("values", mode="before")
    @classmethod
    def _read_values(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        return read_values(given)

    @model_validator(mode="after")
    def _check(self) -> "Message":
        check_values(self.code, self.values)
        return self

    @model_serializer(mode="plain")
    def _write(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "values": self.values,
            "units": units_of(ENTRIES[self.code], self.values),
            "text": in_english(self),
        }

    def say(self) -> str:
        """The sentence in the language in use."""
        return render(ENTRIES[self.code].text, self.values)


def message(code: str, /, **values: Value) -> Message:
    """A message of the catalogue. Raises ValueError when the catalogue has no such code, or it names other values."""
    return Message(code=code, values=values)


def verbatim(text: str) -> Message:
    """A sentence that was written elsewhere, which no language translates."""
    return Message(code=VERBATIM, values={"text": text})


# A message that there may be none of; in findings of version 1 that is an empty text.
MaybeMessage = Annotated[Message | None, BeforeValidator(lambda given: given or None)]


def say(message: Message | str | None) -> str:
    """The sentence in the language in use; none is empty, and a name is itself."""
    return message.say() if isinstance(message, Message) else message or ""


def in_english(message: Message) -> str:
    """The sentence as it is written to files, whatever language is in use."""
    with speak(find_language(ENGLISH)):
        return message.say()


def is_known(code: object, values: object) -> bool:
    """Whether the catalogue has the code, and all that its words name is among the values."""
    if not isinstance(code, str) or not isinstance(values, Mapping):
        return False
    return code in ENTRIES and not names_of(ENTRIES[code]).keys() - values.keys()


def check_values(code: str, values: Mapping[str, Any]) -> None:
    """ValueError unless the catalogue has the code, and names no other values."""
    if code not in ENTRIES:
        raise ValueError(f'the catalogue of findings has no code "{code}"')
    if missing := names_of(ENTRIES[code]).keys() - values.keys():
        raise ValueError(f'"{code}" lacks values: {", ".join(sorted(missing))}')


def names_of(entry: Entry) -> dict[str, str]:
    """Names of the values that an entry's words have, with the ways in which they are written."""
    return {**placeholders(entry.hint), **placeholders(entry.text)}


def units_of(entry: Entry, values: Mapping[str, Any]) -> dict[str, str]:
    """Base units of the values that have one, by name."""
    units = {name: unit_of(way) for name, way in names_of(entry).items() if name in values}
    return {name: unit for name, unit in units.items() if unit}


def read_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Values as JSON has them: messages among them are made of their codes, lists are tuples. ValueError if none."""
    if not isinstance(given, Mapping):
        raise ValueError("values are not by name")  # noqa: TRY004  # what pydantic understands
    return {name: _read_value(value) for name, value in given.items()}


def _read_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Message.model_validate(value)
    if isinstance(value, list | tuple):
        return tuple(_read_value(part) for part in value)
    return value
