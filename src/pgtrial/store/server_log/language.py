"""A server's language: messages of the kinds that are looked for, put into English by the server's own catalogue."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pgtrial.store.server_log.formats import LINES, USAGE, WHOLE
from pgtrial.store.server_log.printf import compile_format, fill, literal_length
from pgtrial.store.server_log.words import ENGLISH_LABELS, ENGLISH_SEVERITIES, LABELS, SEVERITIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """What is printed with a translated format, and the English format of the same arguments."""

    pattern: re.Pattern[str]
    english: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """``severities`` and ``labels`` map the words as they are printed to the English ones.

    ``whole`` are for messages, ``lines`` for single lines of one, ``parts`` for what is anywhere in a line.
    """

    severities: Mapping[str, str]
    labels: Mapping[str, str]
    whole: tuple[Sentence, ...] = ()
    lines: tuple[Sentence, ...] = ()
    parts: tuple[Sentence, ...] = ()

    def severity(self, word: str) -> str:
        return self.severities.get(word, word)

    def to_english(self, message: str) -> str:
        """The message in English if it is one of those that are looked for, else as it is."""
        for sentence in self.whole:
            if found := sentence.pattern.fullmatch(message):
                return fill(sentence.english, found.groupdict())
        if not self.lines:
            return message
        return "\n".join(self._line_to_english(line) for line in message.split("\n"))

    def _line_to_english(self, line: str) -> str:
        for sentence in self.lines:
            if found := sentence.pattern.fullmatch(line):
                line = fill(sentence.english, found.groupdict())
                break
        for sentence in self.parts:
            if found := sentence.pattern.search(line):
                line = line[: found.start()] + fill(sentence.english, found.groupdict()) + line[found.end() :]
        return line


# Of a server whose messages are English, or whose catalogue cannot be read: the words are known all the same.
PLAIN = Language(severities=ENGLISH_SEVERITIES, labels=ENGLISH_LABELS)


def language_of(catalogue: Mapping[str, str]) -> Language:
    """The language of a server's catalogue (``read_catalogue``). Messages it does not translate stay in English."""
    severities = {catalogue[name]: name for name in SEVERITIES if name in catalogue}
    # Labels stand there with the blanks behind them, but for that of the place in the source, which is a whole line.
    texts = {name: catalogue.get(f"{name}  ", catalogue.get(f"{name}  %s:%d", "")) for name in LABELS}
    labels = {text.partition("%")[0].strip(): name for name, text in texts.items() if text}
    return Language(
        severities={**ENGLISH_SEVERITIES, **severities},
        labels={**ENGLISH_LABELS, **labels},
        whole=_sentences(WHOLE, catalogue),
        lines=_sentences(LINES, catalogue),
        parts=_sentences([USAGE.text], catalogue),
    )


def _sentences(formats: Iterable[str], catalogue: Mapping[str, str]) -> tuple[Sentence, ...]:
    """The most specific first: in some languages what one format prints fits another as well."""
    known = [each for each in formats if each in catalogue]
    known.sort(key=lambda each: -literal_length(catalogue[each]))
    return tuple(Sentence(pattern=compile_format(catalogue[each]), english=each) for each in known)
