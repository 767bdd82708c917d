"""A spreadsheet as its XML says it is, read without the library that wrote it (ECMA-376, part 1, chapter 18)."""

import io
import posixpath
import re
import zipfile
from dataclasses import dataclass
from xml.etree import ElementTree

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
LINK = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


@dataclass(frozen=True)
class Cell:
    """``kind`` is "s" of a text, "b" of a truth value and "n" of a number; ``code`` is its number format."""

    kind: str
    value: str | float | bool
    code: str
    is_quoted: bool


class Workbook:
    """Sheets by name, each a dictionary of (row, column), from 0, to cell."""

    def __init__(self, content: bytes) -> None:
        self.archive = zipfile.ZipFile(io.BytesIO(content))
        styles = self.xml("xl/styles.xml")
        codes = {node.get("numFmtId"): node.get("formatCode", "") for node in styles.iter(f"{MAIN}numFmt")}
        codes |= {"1": "0", "49": "@"}
        formats = styles.find(f"{MAIN}cellXfs")
        self.styles = [(codes.get(xf.get("numFmtId"), ""), xf.get("quotePrefix") == "1") for xf in formats]
        targets = {
            node.get("Id"): posixpath.join("xl", node.get("Target", ""))
            for node in self.xml("xl/_rels/workbook.xml.rels")
        }
        self.parts = {
            node.get("name"): targets[node.get(LINK)] for node in self.xml("xl/workbook.xml").iter(f"{MAIN}sheet")
        }
        self.sheets = {name: self.read_sheet(part) for name, part in self.parts.items()}

    def xml(self, name: str) -> ElementTree.Element:
        return ElementTree.fromstring(self.archive.read(name))

    def read_sheet(self, part: str) -> dict[tuple[int, int], Cell]:
        found = {}
        for node in self.xml(part).iter(f"{MAIN}c"):
            code, is_quoted = self.styles[int(node.get("s", "0"))]
            kind, value = node.get("t", "n"), node.find(f"{MAIN}v")
            if kind == "inlineStr":  # a text that stands in its cell and not in a list of all texts
                text = "".join(part.text or "" for part in node.iter(f"{MAIN}t"))
                found[place(node.get("r"))] = Cell("s", text, code, is_quoted)
            elif value is not None and value.text is not None:
                shown = value.text == "1" if kind == "b" else float(value.text)
                found[place(node.get("r"))] = Cell(kind, shown, code, is_quoted)
        return found

    def table(self, name: str) -> list[list[str | float | bool | None]]:
        """The rows of a sheet, with None where there is no cell."""
        cells = self.sheets[name]
        height, width = (max(at[k] for at in cells) + 1 for k in (0, 1))
        return [
            [cells[row, column].value if (row, column) in cells else None for column in range(width)]
            for row in range(height)
        ]


def place(reference: str) -> tuple[int, int]:
    """(row, column) of "AB12", from 0."""
    letters, digits = re.fullmatch(r"([A-Z]+)(\d+)", reference).groups()
    column = 0
    for letter in letters:
        column = column * 26 + ord(letter) - ord("A") + 1
    return int(digits) - 1, column - 1
