"""Numbers that are written as words: "sixty-two percent", "twice", "halved"."""

import re

_ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen")
_TEENS = ("fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {
    **{word: number for number, word in enumerate((*_ONES, *_TEENS), start=1)},
    **{word: 10 * number for number, word in enumerate(_TENS, start=2)},
}
_WORD = "|".join(sorted((*_VALUES, "hundred"), key=len, reverse=True))
NUMBER_WORDS = re.compile(rf"\b(?:a\s+(?=hundred\b))?(?:{_WORD})(?:(?:-|\s+|\s+and\s+)(?:{_WORD}))*\b", re.IGNORECASE)

# Multiples in one word, and how many times they say that something is of what it was.
MULTIPLES: tuple[tuple[re.Pattern[str], float], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), value)
    for pattern, value in (
        (r"\btwice\b|\bdoubl(?:e|es|ed|ing)\b|\btwofold\b", 2.0),
        (r"\bthrice\b|\btripl(?:e|es|ed|ing)\b|\bthreefold\b", 3.0),
        (r"\bquadrupl(?:e|es|ed|ing)\b|\bfourfold\b", 4.0),
        (r"\bfivefold\b", 5.0),
        (r"\btenfold\b", 10.0),
        (r"\bhalv(?:e|es|ed|ing)\b|\bhalf\s+(?:as|the\s+(?:throughput|latency|speed|rate))\b", 0.5),
    )
)


def read_words(text: str) -> int:
    """The number that the words say; ValueError where they say none."""
    total = 0
    for word in re.findall(r"[a-z]+", text.lower()):
        if word in ("and", "a"):
            continue
        if word == "hundred":
            total = max(total, 1) * 100
        elif word in _VALUES:
            total += _VALUES[word]
        else:
            raise ValueError(f'"{text}" is not a number')
    return total
