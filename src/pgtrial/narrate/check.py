"""Check a model's text: it must have placeholders for facts and no claims of its own that could contradict them.

It refuses numerals in any script, number words, words of comparison and verdict, markup, and placeholders for unknown
facts or in places where the surrounding text would change their meaning. Values are filled in only if nothing is
refused.

Not caught: "one", "first" and "second", Roman numerals in plain letters, "many" and "all", words split or misspelled to
deceive, and a fact that stands in a sentence about something else. docs/narrate.md says so to users.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

MOST_CHARACTERS = 30_000  # of a text; a report of some hundred words has some thousand
_MOST_FAULTS = 20  # that are told
_MOST_SHOWN = 40  # characters of a word
_PLACEHOLDER = re.compile(r"\{\{\s*([\w.]+)\s*\}\}")
# Models escape for Markdown what they see as its marks.
_ESCAPED = re.compile(r"\\([_*{}.#()!-])")
_MARKUP = re.compile(r"[{}\[\]\\&@%‰‱]|://")
_WORD = re.compile(r"[^\W\d_]+")
# A value is a word of its own: "-{{change}}", "{{count}}k" and "{{low}}/{{high}}" say something else than it does.
_GLUED = re.compile(
    r"""(?<=[^\s(“"«„‘'*_:,;—])\{\{[^{}]*\}\}|(?<=\S )- *\{\{[^{}]*\}\}|\{\{[^{}]*\}\}(?=[^\s.,;:!?)”"»“’'*_—])"""
)
_DENIED = re.compile(
    r"(?:\b(?:not|never|no|without|cannot|hardly|не|нет|ни|без|nunca|sin|ni)|n['’]t)\s+(?:\w+\s+)?\{\{", re.IGNORECASE
)

# All languages at once: a model may answer in another one than it was asked in. "*" stands for any ending.
_NUMBER_WORDS = """
    zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
    nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred* thousand* million* billion* dozen* half
    halve* halving third* fourth* fifth* sixth* seventh* eighth* ninth* tenth* quarter* twice thrice times double*
    doubling triple* tripling quadrupl* quintupl* twofold threefold fourfold fivefold tenfold hundredfold magnitude*
    couple percent percents percentage* cent minus plus

    ноль нул* два две двух двум двумя двое вдвое дважды двукратн* двойн* удво* три трех трем тремя трое втрое трижды
    трехкратн* тройн* утроил* утроен* четыре* четверо вчетверо четверт* пят* впятеро шест* семь семи семью седьм* восем*
    восьм* девят* десят* одиннадцат* двенадцат* тринадцат* четырнадцат* двадцат* тридцат* сорок* сто ста сотн* сотен
    двести двухсот тысяч* миллион* миллиард* половин* пол полтор* вполовину наполовину трет* процент* дюжин* кратно
    минус плюс

    cero dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieci* veint* treinta cuarenta
    cincuenta sesenta setenta ochenta noventa cien ciento cientos doscient* quinient* mil miles millón millones mitad
    medio tercio* cuarto* quinto* doble* duplic* triplic* cuádrupl* cuadruplic* docena* decena* veces porcentaje* menos
"""
_COMPARISONS = """
    faster fastest quicker slower slowest better best worse worst higher highest lower* lowest greater larger bigger
    largest smallest biggest smaller shorter longer stronger weaker more most less least fewer above below increase*
    increasing rise* rising rose grow* grew fall* fell drop* decrease* decreasing decline* declining gain* loss* lose*
    losing lost improve* improving degrade* degrading degradation* reduce* reducing reduction* save* saving* outperform*
    beat* win wins won speedup* slowdown* slowed slows accelerat* deteriorat* shrink* shrank worsen* exceed* supported
    supports refuted refutes confirm confirms confirmed disprove* inconclusive equivalent significant*

    быстре* медленне* лучш* хуж* худш* выше ниже больш* меньш* более менее дольше короче увелич* вырос* возрос* рост
    роста ростом раст* повыс* повыш* сниз* сниж* уменьш* упал* пада* сократ* сокращ* ускор* замедл* улучш* ухудш* выигр*
    проигр* прирост* превы* подтвержд* подтверд* опровергнут* опровергает

    más mejor* peor* mayor* menor* superior* inferior* aument* reduc* reduj* baja* bajó subi* sube* disminu* increment*
    crec* descen* descien* caíd* cae cayó aceler* desaceler* ralentiz* gana* ganó pierd* perd* supera* superó rebas*
    confirmad* refutad* respaldad*
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertedValue:
    """The value of the fact ``id``, from ``start`` to ``end`` of the finished text."""

    id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedText:
    """The finished text with its values, or why it is refused; one of both is empty."""

    text: str
    placed: tuple[InsertedValue, ...] = ()
    faults: tuple[str, ...] = ()


def check_text(answer: str, values: Mapping[str, str], restore: Callable[[str], str] = str) -> CheckedText:
    """The answer with the value of each placeholder's id; ``restore`` puts names into the model's own words."""
    written = _ESCAPED.sub(r"\1", answer.replace("\r\n", "\n").strip())
    text = unicodedata.normalize("NFKC", written)
    faults = tuple(dict.fromkeys(_find_faults(written, text, values)))
    if faults:
        more = len(faults) - _MOST_FAULTS
        return CheckedText(text="", faults=(*faults[:_MOST_FAULTS], f"and {more} more") if more > 0 else faults)
    finished, placed = "", []
    for place, part in enumerate(_PLACEHOLDER.split(text)):
        start = len(finished)
        finished += values[part] if place % 2 else restore(part)
        if place % 2:
            placed.append(InsertedValue(id=part, start=start, end=len(finished)))
    if len(finished) > MOST_CHARACTERS:
        return CheckedText(text="", faults=(f"it is longer than {MOST_CHARACTERS} characters with its values",))
    return CheckedText(text=finished, placed=tuple(placed))


def _find_faults(written: str, text: str, values: Mapping[str, str]) -> Iterator[str]:
    if max(len(written), len(text)) > MOST_CHARACTERS:
        yield f"it is longer than {MOST_CHARACTERS} characters"
        return
    parts = _PLACEHOLDER.split(text)
    own, ids = parts[::2], parts[1::2]
    if not ids:
        yield "it has no placeholder, so it tells nothing of the facts"
    for id_ in ids:
        if id_ not in values:
            yield f"{{{{{id_}}}}}: there is no such fact"
    for match in _GLUED.finditer(text):
        yield f"{match[0]}: has to stand between spaces, or before punctuation"
    for match in _DENIED.finditer(text):
        yield f'"{match[0].removesuffix("{{").strip()}" denies the fact behind it'
    # Some numerals are letters once they are normalised, as the Roman ones.
    for token in re.split(r"[ \n\t]+", " ".join((_PLACEHOLDER.sub(" ", written), *own))):
        fault = next(filter(None, map(_fault_of, token)), "")
        if fault:
            yield f'"{token[:_MOST_SHOWN]}": {fault}'
    for prose in own:
        for match in _MARKUP.finditer(prose):
            yield f'"{match[0]}": no markup, addresses, per cent signs, or braces that are no placeholder'
        for word in _WORD.findall(prose.casefold().replace("ё", "е")):
            if _REFUSED_NUMBERS.fullmatch(word):
                yield f'"{word}": a number in words; use the placeholder of a fact'
            elif _REFUSED_COMPARISONS.fullmatch(word):
                yield f'"{word}": a comparison in own words; use the placeholder of a direction, change or verdict'


def _fault_of(character: str) -> str:
    """Why this character is refused; "" of the others."""
    category = unicodedata.category(character)
    if category.startswith("N"):
        return "a numeral; use the placeholder of a fact"
    if category.startswith("P") or category == "Zs":
        return ""
    if category.startswith("L"):
        name = unicodedata.name(character, "")
        is_known = "LATIN" in name or "CYRILLIC" in name or name.endswith("ORDINAL INDICATOR")
        return "" if is_known else "a letter of another alphabet than the Latin and the Cyrillic"
    return f"no symbols or hidden characters (U+{ord(character):04X})"


def _compile(words: str) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(word).replace(r"\*", r"\w*") for word in words.split()))


_REFUSED_NUMBERS = _compile(_NUMBER_WORDS)
_REFUSED_COMPARISONS = _compile(_COMPARISONS)
