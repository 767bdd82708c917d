"""Numbers that are written as words: "sixty-two percent", "twice", "halved", "two thirds"."""

import re
import unicodedata
from fractions import Fraction

_ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen")
_TEENS = ("fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {
    **{word: number for number, word in enumerate((*_ONES, *_TEENS), start=1)},
    **{word: 10 * number for number, word in enumerate(_TENS, start=2)},
}
_GROUPS = {"hundred": 100, "dozen": 12}
_WORD = "|".join(sorted((*_VALUES, *_GROUPS), key=len, reverse=True))
NUMBER_WORDS = re.compile(
    rf"\b(?:a\s+(?=(?:hundred|dozen)\b))?(?:{_WORD})(?:(?:-|\s+|\s+and\s+)(?:{_WORD}))*\b", re.IGNORECASE
)

# Multiples in one word, and how many times they say that something is of what it was.
MULTIPLES: tuple[tuple[re.Pattern[str], float], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), value)
    for pattern, value in (
        (r"\btwice\b|\bdoubl(?:e|es|ed|ing)\b|\btwofold\b", 2.0),
        (r"\bthrice\b|\btripl(?:e|es|ed|ing)\b|\bthreefold\b", 3.0),
        (r"\bquadrupl(?:e|es|ed|ing)\b", 4.0),
        (r"\bquintupl(?:e|es|ed|ing)\b", 5.0),
        (r"\b(?:an|one)\s+order\s+of\s+magnitude\b", 10.0),
        (r"\b(?:a\s+)?hundredfold\b", 100.0),
        *((rf"\b{word}fold\b", float(value)) for word, value in _VALUES.items() if value > 3),
        (r"\bhalv(?:e|es|ed|ing)\b|\bhalf\s+(?:as|the\s+(?:throughput|latency|speed|rate))\b", 0.5),
    )
)

# Parts of a whole. "A third" is a part where no noun follows, which would make it an ordinal: "a third run".
_PARTS = {
    **{"half": 2, "halve": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8},
    **{"ninth": 9, "tenth": 10, "twentieth": 20, "hundredth": 100},
}
_BEHIND = (
    r"of|as|less|more|fewer|lower|higher|faster|slower|smaller|larger|greater|better|worse|shorter|longer|in|on|at|with"
    r"|for|from|when|while|compared|against|than|to|by|over|under|across|during|after"
)
FRACTION_WORDS = re.compile(
    rf"\b(?:(?P<count>an?|{'|'.join(word for word, value in _VALUES.items() if value < 100)})[\s-]+"
    rf"(?P<part>{'|'.join(_PARTS)})s?\b(?=\s*(?:$|[^\s\w-]|\s(?:{_BEHIND})\b))"
    r"|(?<=\bby )half\b(?!\s+an?\b)|(?<!first )(?<!second )(?<!other )(?<!latter )(?<!last )"
    r"(?<!upper )(?<!lower )(?<!each )half(?=\s+of\b))|[½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞]",
    re.IGNORECASE,
)


def read_fraction(match: re.Match[str]) -> float:
    """The part of a whole that a match of FRACTION_WORDS says."""
    if len(match[0]) == 1:
        return unicodedata.numeric(match[0])
    if match["part"] is None:
        return 0.5
    count = match["count"].lower()
    return float(Fraction(_VALUES.get(count, 1), _PARTS[match["part"].lower()]))


def read_words(text: str) -> int:
    """The number that the words say; ValueError where they say none."""
    total = 0
    for word in re.findall(r"[a-z]+", text.lower()):
        if word in ("and", "a"):
            continue
        if word in _GROUPS:
            total = max(total, 1) * _GROUPS[word]
        elif word in _VALUES:
            total += _VALUES[word]
        else:
            raise ValueError(f'"{text}" is not a number')
    return total
