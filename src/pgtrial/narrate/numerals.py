"""Amounts in a text, in digits or in words: value, rounding, sign, what qualifies it, and the unit behind it."""

import re
from collections.abc import Sequence

from pgtrial.narrate.number_words import FRACTION_WORDS, MULTIPLES, NUMBER_WORDS, read_fraction, read_words
from pgtrial.narrate.quantity import Mention, Quantity
from pgtrial.narrate.units_in_text import Unit, read_unit

Span = tuple[int, int]

_DIGITS = r"\d{1,3}(?:[,\u00a0\u202f\u2009 ]\d{3})+(?!\d)|\d+"
_EXPONENT = r"[eE][+-]?\d+|\s?[×·*x]\s?10(?:\^\(?[-−+]?\d+\)?|[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
# A comma, with one or two digits and a unit behind it, is a decimal one; between others it makes a list.
_FRACTION = r"\.\d+|(?<=\d),\d{1,2}(?![\d,])(?=\s?(?:%|(?!and\b|or\b|to\b)[A-Za-zµμ×]))"
_NUMBER = re.compile(
    rf"(?:(?<![\w.])|(?<=(?<!\w)[xX]))(?=\.?\d)(?P<digits>{_DIGITS})?(?P<fraction>{_FRACTION})?"
    rf"(?P<exponent>{_EXPONENT})?"
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺−", "0123456789-+-")
_NEARBY = 60  # characters before a number that can belong to it
_BEFORE_SIGN = re.compile(r"(?:\A|[\s(\[{:=/,;>\"“'*_|~≈≤≥<])$")
_WORD_SIGN = re.compile(r"\b(minus|plus)\s$", re.IGNORECASE)
_MARK_BEFORE = re.compile(r"[±~≈]\s?$")
_TIMES_BEFORE = re.compile(
    r"(?:×\s?|(?<!\w)[xX]|\bfactor(?:\s+of)?\s+(?:about\s+|nearly\s+|almost\s+)?)$", re.IGNORECASE
)
_P_VALUE = re.compile(
    r"\b(?:p(?:[-\s]?values?)?|probability)\s*(?:\([^)]*\))?\s*(?:of\s+)?"
    r"(?P<relation>=|<|>|≤|≥|≈|is|was|below|under|above|at|(?:smaller|less) than)?\s*(?:about\s+)?$",
    re.IGNORECASE,
)
_QUALIFIER = re.compile(
    r"\b(?:(?P<above>more than|over|above|at least|greater than|larger than|exceed(?:s|ed|ing)?|beyond|upwards of)"
    r"|(?P<below>less than|fewer than|under|below|almost|nearly|at most|just short of|close to|not quite|up to))"
    r"\s+(?:a\s+|the\s+)?$",
    re.IGNORECASE,
)
_WORD_UNITS = frozenset(
    {Quantity.PERCENT, Quantity.POINTS, Quantity.TIMES, Quantity.SECONDS}
    | {Quantity.RATE, Quantity.BYTES, Quantity.BYTE_RATE}
)
_AND_A_HALF = re.compile(r"\s+and\s+a\s+half\b", re.IGNORECASE)
_FRACTION_STEP = 0.08  # "a third" is 29 % to 37 %
_WORD_NOUNS = frozenset({"block", "client", "level", "run", "arm"})


def search_before(pattern: re.Pattern[str], text: str, end: int) -> re.Match[str] | None:
    """Where a pattern that ends in "$" ends at ``end``, looked for nearby only."""
    return pattern.search(text, max(0, end - _NEARBY), end)


def find_multiples(text: str) -> list[Mention]:
    return [
        Mention(
            start=match.start(),
            end=match.end(),
            text=match[0],
            quantity=Quantity.TIMES,
            value=value,
            step=0.5 if value > 1 else 0.1,
            relation=_relation(text, match.start(), is_reversed=value < 1),
            is_word=True,
        )
        for pattern, value in MULTIPLES
        for match in pattern.finditer(text)
    ]


def find_fractions(text: str) -> list[Mention]:
    """ "A third", "by half", "¾": shares, and as coarse as such words are."""
    return [
        Mention(
            start=match.start(),
            end=match.end(),
            text=match[0],
            quantity=Quantity.PERCENT,
            value=read_fraction(match),
            step=_FRACTION_STEP,
            relation=_relation(text, match.start()),
            is_word=True,
        )
        for match in FRACTION_WORDS.finditer(text)
    ]


def find_word_numbers(text: str) -> list[Mention]:
    """Words that say a number, where a unit follows, or "a factor of" stands before, that makes them one; "one" alone
    is none.
    """
    found = []
    for match in NUMBER_WORDS.finditer(text):
        half = _AND_A_HALF.match(text, match.end())
        after = half.end() if half else match.end()
        unit = read_unit(text, after)
        value = read_words(match[0]) + (0.5 if half else 0)
        if unit is None and search_before(_TIMES_BEFORE, text, match.start()):
            unit = Unit(quantity=Quantity.TIMES, factor=1.0, length=0)
        if unit is None or not (unit.quantity in _WORD_UNITS or unit.noun in _WORD_NOUNS):
            continue
        if value == 1 and unit.quantity not in {Quantity.PERCENT, Quantity.POINTS}:
            continue
        end = after + unit.length
        found.append(
            Mention(
                start=match.start(),
                end=end,
                text=text[match.start() : end],
                quantity=unit.quantity,
                value=value * unit.factor,
                step=unit.factor * (0.5 if half else 1),
                relation=_relation(text, match.start()),
                noun=unit.noun,
                factor=unit.factor,
            )
        )
    return found


def find_digit_numbers(text: str, taken: Sequence[Span]) -> list[Mention]:
    found = []
    for match in _NUMBER.finditer(text):
        if not (match["digits"] or match["fraction"]) or any(a <= match.start() < b for a, b in taken):
            continue
        found.append(_read_number(text, match))
    return found


def _read_number(text: str, match: re.Match[str]) -> Mention:
    digits = re.sub(r"\D", "", match["digits"] or "0")
    value = float(f"{digits}{(match['fraction'] or '').replace(',', '.')}")
    step = 10.0 ** -(len(match["fraction"]) - 1) if match["fraction"] else _integer_step(digits)
    if match["exponent"]:
        power = _power(match["exponent"])
        value, step = value * power, step * power
    sign, start = _sign(text, match.start())
    unit = read_unit(text, match.end())
    quantity, factor, end, noun = Quantity.PLAIN, 1.0, match.end(), ""
    if unit is not None:
        quantity, factor, end, noun = unit.quantity, unit.factor, match.end() + unit.length, unit.noun
    elif search_before(_TIMES_BEFORE, text, match.start()):
        quantity = Quantity.TIMES
    relation = _relation(text, start)
    if quantity is Quantity.PLAIN:
        p_value = search_before(_P_VALUE, text, start)
        if p_value:
            quantity, relation = Quantity.P_VALUE, _p_relation(p_value["relation"] or "")
    return Mention(
        start=start,
        end=end,
        text=text[start:end],
        quantity=quantity,
        value=value * factor,
        step=step * factor,
        sign=sign,
        relation=relation,
        noun=noun,
        factor=factor,
    )


def _integer_step(digits: str) -> float:
    """The unit of the last digit that counts: zeros at the end may be rounding, but two digits always count."""
    zeros = len(digits) - len(digits.rstrip("0"))
    return 10.0 ** max(0, min(zeros, len(digits.lstrip("0")) - 2))


def _power(exponent: str) -> float:
    """ "e-7", "×10^-7" and "× 10⁻⁷" as factors."""
    plain = exponent.translate(_SUPERSCRIPTS).strip()
    if plain[0] in "eE":
        return float(f"1{plain}")
    return 10.0 ** int(re.sub(r"[^\d-]", "", re.sub(r"^\s*[×·*x]\s?10", "", plain)) or 0)


def _sign(text: str, start: int) -> tuple[int, int]:
    """The sign that is written before a number, and where it begins. A dash between numbers is none."""
    word = search_before(_WORD_SIGN, text, start)
    if word:
        return (-1 if word[1].lower() == "minus" else 1), word.start()
    mark = search_before(_MARK_BEFORE, text, start)
    if mark:
        return 0, mark.start() if mark[0][0] == "±" else start
    before = text[start - 1 : start]
    if before in {"+", "-", "−", "–"} and search_before(_BEFORE_SIGN, text, start - 1):
        return (1 if before == "+" else -1), start - 1
    return 0, start


def _relation(text: str, start: int, *, is_reversed: bool = False) -> str:
    """Reversed for what more of is less: "more than halved"."""
    found = search_before(_QUALIFIER, text, start)
    if found is None:
        return ""
    return ">" if bool(found["above"]) != is_reversed else "<"


def _p_relation(word: str) -> str:
    if word in {"<", "≤", "below", "under", "smaller than", "less than"}:
        return "<"
    return ">" if word in {">", "≥", "above"} else ""
