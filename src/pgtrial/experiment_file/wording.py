"""Pydantic's errors in the words of this program: PostgreSQL's style, the value as written, what is allowed."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pydantic_core import ErrorDetails

from pgtrial.experiment_file.experiment import FORMAT
from pgtrial.experiment_file.fields import TABLES, choices_at, describe_key, keys_at
from pgtrial.experiment_file.position import Path, format_path
from pgtrial.knobs import KNOBS
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.nearest import hint_name, nearest_name
from pgtrial.units import format_duration, parse_duration

_LONGEST_SHOWN = 60
_OF_KEY = "[key]"
_LEVELS_FORM = 'a number, a list such as [5, 10, 20], or { ramp = "exponential", from = 5, to = 20, levels = 4 }'
_KERNEL_PREFIXES = {"vm", "kernel", "net", "fs"}
_WARMUP_FORM = '"auto", a time such as "30s", 0 for none, or { cap = "2min" }'


def word_error(error: ErrorDetails) -> tuple[Path, str, str]:
    """Path in the file, primary message, and hint ("" for none) of one of pydantic's errors."""
    # Tags in angle brackets name the form of a value that was taken for meant; the file knows no such key.
    # So is what marks a key that is wrong itself.
    path = tuple(part for part in error["loc"] if not str(part).startswith("<") and part != _OF_KEY)
    key = next((part for part in reversed(path) if isinstance(part, str)), "")
    context = error.get("ctx", {})
    word = _WORDING.get(error["type"], _word_type)
    message, hint = word(key, error["input"], {**context, "path": path, "type": error["type"]})
    return path, message, hint


def _word_missing(key: str, _: Any, context: Mapping[str, Any]) -> tuple[str, str]:
    path: Path = context["path"]
    if len(path) == 1 and key == "format":
        return 'required key "format" is missing', f"Begin the file with: format = {FORMAT}"
    if len(path) == 1:
        return f"required table [{key}] is missing", describe_key(path)
    return f'required key "{key}" is missing', describe_key(path)


def _word_unknown(key: str, _: Any, context: Mapping[str, Any]) -> tuple[str, str]:
    path: Path = context["path"]
    known = keys_at(path[:-1])
    in_arm = path[0] in {"arms", "target"} and POSTGRESQL in known
    table = _table_of(key) if in_arm and nearest_name(key, known) is None else ""
    if table == POSTGRESQL:
        hint = f"If it is a PostgreSQL setting, it belongs in [{format_path((*path[:-1], table))}]."
        return f'unrecognized key "{key}"', hint
    if table:
        return f'unrecognized key "{key}"', f"It belongs in [{format_path((*path[:-1], table))}]."
    elsewhere = [table for table in TABLES if key in keys_at((table,))]
    is_table = len(path) == 1 and not elsewhere
    if elsewhere and key not in known:
        hint = f'"{key}" belongs in {" or ".join(f"[{table}]" for table in elsewhere)}.'
    else:
        hint = hint_name(key, known, what="Known are")
    return (f"unrecognized table or key [{key}]" if is_table else f'unrecognized key "{key}"'), hint


def _table_of(key: str) -> str:
    """The table of an arm in which a key that stands in the arm itself would be right; "" if there is none."""
    if key.partition(".")[0] in _KERNEL_PREFIXES:
        return "sysctl"
    having = [knob for knob in KNOBS if key in keys_at(("arms", "", knob))]
    if len(having) == 1:
        return having[0]
    return POSTGRESQL if "_" in key else ""


def _word_choice(key: str, value: Any, context: Mapping[str, Any]) -> tuple[str, str]:
    if key == "format":
        return f"format {_show(value)} is not known to this version of pgtrial", f"It reads format {FORMAT}."
    choices = choices_at(context["path"])
    return f'invalid value for "{key}": {_show(value)}', hint_name(str(value), choices)


def _word_range(key: str, value: Any, context: Mapping[str, Any]) -> tuple[str, str]:
    if key == "margin" and isinstance(value, int | float) and value >= 1:
        return f'{_show(value)} is outside the valid range for "margin"', f'Write a percentage: "{value:g}%".'
    if key == "confidence" and isinstance(value, int | float) and value >= 1:
        return f'{_show(value)} is outside the valid range for "confidence"', "Write a share below 1, such as 0.95."
    limit = {
        "greater_than": "must be greater than {gt}",
        "greater_than_equal": "must be at least {ge}",
        "less_than": "must be less than {lt}",
        "less_than_equal": "must be at most {le}",
    }[context["type"]].format_map({name: _like(value, limit) for name, limit in context.items()})
    return f'{_show(value)} is outside the valid range for "{key}": it {limit}', ""


def _like(value: Any, limit: Any) -> Any:
    """A limit of a time as a time, and any other as the number it is."""
    if isinstance(value, str) and isinstance(limit, int | float):
        with suppress(ValueError):
            parse_duration(value)
            return format_duration(limit)
    return limit


def _word_pattern(key: str, value: Any, context: Mapping[str, Any]) -> tuple[str, str]:
    if "variables" in context["path"]:
        return f"invalid name of a variable: {_show(value)}", 'Use letters, digits and "_", beginning with no digit.'
    longest = 63 if context["path"][0] == "experiment" else 41
    dot = ' dots, "-" and "_"' if context["path"][0] == "experiment" else ' "-" and "_"'
    return (
        f"invalid {key}: {_show(value)}",
        f"Use letters, digits,{dot}, beginning with a letter or digit, at most {longest} characters.",
    )


def _word_form(key: str, value: Any, _: Mapping[str, Any]) -> tuple[str, str]:
    return f'invalid value for "{key}": {_show(value)}', f"Give {_LEVELS_FORM}."


def _word_raised(key: str, value: Any, context: Mapping[str, Any]) -> tuple[str, str]:
    text = str(context["error"])
    message, _, hint = text.partition("; ")
    if key == "warmup":
        message, hint = f"got {_show(value)}", f"Give {_WARMUP_FORM}"
    elif "got" not in message and isinstance(value, bool | int | float):
        message += f", got {_show(value)}"
    return f'invalid value for "{key}": {message}', f"{hint[:1].upper()}{hint[1:]}." if hint else ""


def _word_type(key: str, value: Any, context: Mapping[str, Any]) -> tuple[str, str]:
    wanted = _WANTED.get(context["type"], "another kind of value")
    hint = ""
    if key == "scenario" and isinstance(value, dict):
        hint = "Each scenario is a table of its own: [[workload.scenario]], with two brackets."
    elif key == "job" and isinstance(value, dict):
        hint = "Each job is a table of its own: [[workload.job]], with two brackets."
    elif key == "criteria" and isinstance(value, dict):
        hint = "Each criterion is a table of its own: [[criteria]], with two brackets."
    elif key == "acceptance" and isinstance(value, dict):
        hint = "Each acceptance is a table of its own: [[acceptance]], with two brackets."
    elif context["type"] == "bool_type":
        hint = "Write true or false, without quotation marks."
    elif context["type"] in {"int_type", "float_type"} and isinstance(value, str):
        hint = "Write numbers without quotation marks."
    return f'invalid value for "{key}": expected {wanted}, got {_show(value)}', hint


_WORDING: Mapping[str, Callable[[str, Any, Mapping[str, Any]], tuple[str, str]]] = {
    "missing": _word_missing,
    "extra_forbidden": _word_unknown,
    "literal_error": _word_choice,
    "enum": _word_choice,
    "greater_than": _word_range,
    "greater_than_equal": _word_range,
    "less_than": _word_range,
    "less_than_equal": _word_range,
    "string_pattern_mismatch": _word_pattern,
    "union_tag_not_found": _word_form,
    "value_error": _word_raised,
}

_WANTED = {
    "string_type": "a text in quotation marks",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
}


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        shown = value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "…"
        return '"' + shown.replace("\n", "\\n") + '"'
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a table"
    return str(value)
