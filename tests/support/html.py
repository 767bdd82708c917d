"""What a test reads of a page."""

from collections.abc import Iterator
from html.parser import HTMLParser


class Page(HTMLParser):
    """Elements with their attributes, in order, and the text outside scripts and styles."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._inside = ""
        self.feed(source)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in {"script", "style"}:
            self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.texts.append(data)

    def found(self, tag: str) -> Iterator[dict[str, str | None]]:
        """Attributes of all elements of a kind."""
        return (attributes for name, attributes in self.elements if name == tag)
