"""How the kernel writes things in its files."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping


def chosen(text: str) -> str:
    """Where a file lists all there is, the one in force is in brackets."""
    found = re.search(r"\[(.+?)\]", text)
    return found[1] if found else one_line(text)


def in_parentheses(text: str) -> str:
    """The same with parentheses."""
    found = re.search(r"\((.+?)\)", text)
    return found[1] if found else one_line(text)


def one_line(text: str) -> str:
    return " ".join(text.split())


def find(pattern: str, text: str) -> str:
    """What the first group of the pattern is in a line of the text; "" if there is none."""
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else ""


def every(texts: Mapping[str, str], start: str, end: str) -> list[str]:
    """Texts of the paths that begin and end so."""
    return [text.strip() for path, text in texts.items() if path.startswith(start) and path.endswith(end)]


def tally(values: Iterable[str]) -> str:
    """ "performance", or "performance × 6, powersave × 2" where not all have the same."""
    counts = Counter(values)
    return next(iter(counts)) if len(counts) == 1 else ", ".join(f"{v} × {n}" for v, n in sorted(counts.items()))


def memory_of(texts: Mapping[str, str]) -> dict[str, int]:
    """Bytes of /proc/meminfo by name."""
    found = re.findall(r"^(\w+): +(\d+) kB$", texts.get("/proc/meminfo", ""), re.MULTILINE)
    return {name: int(kilobytes) * 1024 for name, kilobytes in found}
