"""Words of a text, as the server's scanner has them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

_NO_UPDATE = frozenset(("DO", "FOR", "KEY", "THEN"))  # before the word, where no table follows it


class Token(NamedTuple):
    """``kind`` is that of the scanner: "word", "name" (quoted), "number", "string", "parameter", "other" and more."""

    kind: str
    text: str

    @property
    def word(self) -> str:
        """A word that is not quoted, in capital letters."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def name(self) -> str:
        """As the server's catalogue has it; "" of what is none."""
        if self.kind == "name":
            return self.text[self.text.index('"') + 1 : -1].replace('""', '"')
        return self.text.lower() if self.kind == "word" else ""


END = Token("", "")


def token_at(tokens: Sequence[Token], index: int) -> Token:
    return tokens[index] if 0 <= index < len(tokens) else END


def written_by(tokens: Sequence[Token]) -> Iterator[str]:
    """The names, without their schemas, of what a statement writes to."""
    for index, token in enumerate(tokens):
        before = token_at(tokens, index - 1).word
        is_insert = token.word == "INTO" and before in ("INSERT", "MERGE")
        is_update = token.word == "UPDATE" and before not in _NO_UPDATE
        if is_insert or is_update or (token.word == "FROM" and before == "DELETE"):
            at = index + 1
            at += token_at(tokens, at).word == "ONLY"
            while token_at(tokens, at + 1).text == ".":
                at += 2
            yield token_at(tokens, at).name
