"""Read the file's text and explain what is not TOML in it."""

import re
import stat
from pathlib import Path

from pgtrial.errors import SpecError, SpecProblem
from pgtrial.units import format_bytes

LARGEST_FILE = 1024**2  # bytes; an experiment file has a few thousand

_INIT_HINT = '"pgtrial init" writes an example.'
_AT = re.compile(r" \(at line (\d+), column (\d+)\)$| \(at end of document\)$")


def read_text(path: Path) -> str:
    """The file's text; SpecError in one line for whatever cannot be an experiment file."""
    try:
        state = path.stat()
        if stat.S_ISDIR(state.st_mode):
            raise SpecError(f'"{path}" is a directory, not an experiment file', hint="Name the .toml file in it.")
        if not stat.S_ISREG(state.st_mode):
            raise SpecError(f'"{path}" is not a regular file')
        if state.st_size > LARGEST_FILE:
            size = format_bytes(state.st_size)
            raise SpecError(
                f'"{path}" is too large for an experiment file: {size}',
                detail=f"The largest that is read is {format_bytes(LARGEST_FILE)}.",
            )
        content = path.read_bytes()
    except FileNotFoundError:
        raise SpecError(f'experiment file "{path}" does not exist', hint=_INIT_HINT) from None
    except OSError as error:
        raise SpecError(f'experiment file "{path}" cannot be read: {error.strerror}') from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SpecError(
            f'"{path}" is not a text file in UTF-8', detail=f"Line {line} has a byte that is no character."
        ) from error
    if "\0" in text:
        raise SpecError(f'"{path}" is not a text file', detail="It contains zero bytes.")
    if not text.strip():
        raise SpecError(f'experiment file "{path}" is empty', hint=_INIT_HINT)
    return text


def explain_syntax(text: str, error: Exception) -> SpecProblem:
    """The problem behind an exception of tomllib, with line, column and the line itself."""
    if isinstance(error, RecursionError):
        return SpecProblem(path="", message="brackets are nested too deeply")
    if type(error) is ValueError:  # int() refuses numbers of more than 4,300 digits
        return SpecProblem(path="", message="a number is too long")
    message, at = str(error), _AT.search(str(error))
    lines = text.splitlines()
    number, column = len(lines), 0
    if at is not None:
        message = message[: at.start()]
        if at[1] is not None:
            number, column = int(at[1]), int(at[2])
    shown = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    place = f", column {column}" if column else " (end of file)"
    return SpecProblem(
        path="",
        line=number,
        message=f"not TOML: {_reword(message)}, line {number}{place}",
        hint=_advise(message, shown),
    )


def _reword(message: str) -> str:
    twice = re.fullmatch(r"Cannot (?:declare|mutate immutable namespace) \((.*?),?\)(?: twice)?", message)
    if twice is not None:
        name = ".".join(re.findall(r"'([^']*)'", twice[1]))
        return f"table [{name}] appears twice"
    if message.startswith("Cannot overwrite a value"):
        return "a key appears twice"
    return message[:1].lower() + message[1:]


def _advise(message: str, line: str) -> str:
    value = re.fullmatch(r"[^=]+=\s*([^\"'\[\]{}#]*[^\"'\[\]{}#\s])\s*(?:#.*)?", line)
    if value is not None and ("Invalid value" in message or "Expected newline" in message):
        word = value[1]
        if word in {"on", "off", "yes", "no"}:
            return f'Write "{word}" in quotation marks, or {"true" if word in {"on", "yes"} else "false"}.'
        return f'A text needs quotation marks: "{word}".'
    return f"The line is: {line[:100]}" if line else ""
