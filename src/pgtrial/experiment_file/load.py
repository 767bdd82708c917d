"""TOML text to ``Experiment``, with every problem at once: path, line, what is allowed."""

import copy
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pgtrial.errors import SpecError, SpecProblem
from pgtrial.experiment_file import position
from pgtrial.experiment_file.crosscheck import crosscheck
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.position import Found, format_path, locate_keys
from pgtrial.experiment_file.wording import word_error
from pgtrial.knobs import KNOBS
from pgtrial.knobs.fio import FIO
from pgtrial.nearest import nearest_name
from pgtrial.safe_text import TooDeepError, parse_toml
from pgtrial.units import format_bytes

LARGEST_FILE = 1024**2  # bytes; an experiment file has a few thousand

_INIT_HINT = '"pgtrial init" writes an example.'
_AT = re.compile(r" \(at line (\d+), column (\d+)\)$| \(at end of document\)$")
_MOST_REPAIRS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedExperiment:
    """``folder`` is where the file's relative paths begin, ``text`` what the result folder keeps."""

    experiment: Experiment
    folder: Path
    text: str
    source_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an experiment is to run: as its file says, or at the address of a ``host`` that is named elsewhere.

    Unless it ``is_here``, another machine leads it, whose programs and directories are not those of this one.
    """

    host: str | None = None
    is_here: bool = True

    def put(self, experiment: Experiment) -> Experiment:
        """The experiment as the host has it."""
        if self.host is None:
            return experiment
        target = experiment.target.model_copy(update={"host": self.host})
        return experiment.model_copy(update={"target": target})


AS_WRITTEN = Place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What a text says and what is wrong with it.

    With problems, ``experiment`` is what is left without the parts that could not be read, so that further checks can
    add their own problems; None when too little is left.
    """

    experiment: Experiment | None
    problems: tuple[SpecProblem, ...]


def parse_experiment(text: str, source_name: str, folder: Path, *, check_files: bool = True) -> LoadedExperiment:
    """Read and check a text; SpecError with all its problems. ``source_name`` stands in the messages.

    Without ``check_files`` the files and directories it names need not exist.
    """
    examination = examine(text, folder if check_files else None)
    if examination.experiment is None or examination.problems:
        raise refuse(source_name, examination.problems)
    return LoadedExperiment(experiment=examination.experiment, folder=folder, text=text, source_name=source_name)


def examine(text: str, folder: Path | None, place: Place = AS_WRITTEN) -> Examination:
    """All problems of a text, in the order of their lines, for an experiment that is put on ``place``; None for
    ``folder`` leaves the file system out.
    """
    try:
        data = parse_toml(text)
    except ValueError as error:  # not only TOMLDecodeError: a number of thousands of digits fails below tomllib
        return Examination(experiment=None, problems=(explain_syntax(text, error),))
    experiment, found = _validate(data)
    broken = [path for path, _, _ in found]
    if experiment is not None:
        experiment = place.put(experiment)
        others = crosscheck(experiment, folder, is_here=place.is_here)
        found += [other for other in others if not _follows(other[0], broken)]
    problems = [SpecProblem(path=format_path(path), message=message, hint=hint) for path, message, hint in found]
    return Examination(experiment=experiment, problems=locate_problems(text, problems))


def locate_problems(text: str, problems: Iterable[SpecProblem]) -> tuple[SpecProblem, ...]:
    """The problems with their lines, ordered by them; what is missing has the line of the table it is missing from."""
    lines = {format_path(path): line for path, line in locate_keys(text).items()}

    def find_line(path: str) -> int | None:
        while path not in lines:
            shorter = re.sub(r'(?:\.?"(?:\\.|[^"\\])*"|\.?[^."\[\]]+|\[\d+\])$', "", path)
            if shorter in {"", path}:
                return None
            path = shorter
        return lines[path]

    located = [p if p.line is not None else replace(p, line=find_line(p.path)) for p in problems]
    return tuple(sorted(located, key=lambda problem: problem.line or 0))


def refuse(source_name: str, problems: tuple[SpecProblem, ...]) -> SpecError:
    """The error that carries all problems of a file."""
    count = "1 error" if len(problems) == 1 else f"{len(problems)} errors"
    return SpecError(f'experiment file "{source_name}" has {count}', problems=problems, source=source_name)


def _validate(data: dict[str, Any]) -> tuple[Experiment | None, list[Found]]:
    """The experiment, and what is wrong; with errors, of a copy from which the wrong parts are removed."""
    found: list[Found] = []
    data = copy.deepcopy(data)
    for _ in range(_MOST_REPAIRS):
        try:
            return Experiment.model_validate(data), found
        except ValidationError as error:
            details = error.errors(include_url=False)
        worded = [word_error(detail) for detail in details]
        found = found or worded
        for (path, _, _), detail in zip(worded, details, strict=True):
            _repair(data, path[:-1] if detail["type"] == "missing" and path not in _STAND_INS else path)
    return None, found


# What takes the place of a required part that is missing or wrong, so that the rest can still be checked.
_STAND_INS: dict[position.Path, Any] = {
    ("format",): 1,
    ("experiment",): {"name": "unnamed"},
    ("experiment", "name"): "unnamed",
    ("workload",): {"mix": "select-only"},
}


def _repair(data: dict[str, Any], path: position.Path) -> None:
    """Replace what is at ``path`` by its stand-in, an arm by an empty one; remove anything else."""
    table: Any = data
    for depth, part in enumerate(path):
        here = path[: depth + 1]
        # A list loses all its elements with one of them, for without it the others have other numbers.
        is_last = here == path or not isinstance(table.get(part), dict)
        if is_last and here in _STAND_INS:
            table[part] = copy.deepcopy(_STAND_INS[here])
        elif is_last and depth == 1 and path[0] == "arms":
            table[part] = {}
        elif is_last:
            table.pop(part, None)
        if is_last:
            return
        table = table[part]


# What says of which kind the target is, and so what may be set there.
_OF_TARGET = {("target", key) for key in ("kind", "host", "database", "restart")} | {("dataset", "kind")}


def _depends_on_target(path: position.Path) -> bool:
    if path[0] == "arms":
        return len(path) > 2 and path[2] in KNOBS
    if path[0] == "factors":
        return len(path) == 2 or path[2] in {"knob", "setting"}
    return path[0] in {"target", "dataset", "design"}


def _follows(path: position.Path, broken: list[position.Path]) -> bool:
    """Whether a problem may be there only because a part of the file could not be read."""
    return any(
        path[: len(wrong)] == wrong
        or wrong[: len(path)] == path
        or (path == ("hypothesis", "arm") and (wrong[0] == "factors" or wrong == ("arms",)))
        or (path == ("hypothesis", "scenario") and wrong[:2] in {("workload",), ("workload", "mix")})
        or (path == ("hypothesis", "scenario") and wrong[:2] == ("workload", "scenario"))
        or (wrong[:2] in _OF_TARGET and _depends_on_target(path))
        or (path == ("design", "soak") and wrong == ("design", "windows"))
        or (path == ("workload",) and (FIO in wrong or wrong[0] in {"arms", "factors"}))
        or (wrong == ("workload", "kind") and path[0] in {"workload", "target", "arms", "factors", "hypothesis"})
        for wrong in broken
    )


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
                detail=f"The limit is {format_bytes(LARGEST_FILE)}.",
            )
        content = path.read_bytes()
    except FileNotFoundError:
        raise SpecError(f'experiment file "{path}" does not exist', hint=_hint_missing(path)) from None
    except OSError as error:
        raise SpecError(f'experiment file "{path}" cannot be read: {error.strerror}') from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SpecError(
            f'"{path}" is not a text file in UTF-8', detail=f"Line {line} has a byte that is not a valid character."
        ) from error
    if "\0" in text:
        raise SpecError(f'"{path}" is not a text file', detail="It contains zero bytes.")
    if not text.strip():
        raise SpecError(f'experiment file "{path}" is empty', hint=_INIT_HINT)
    return text


def _hint_missing(path: Path) -> str:
    """The .toml file beside it whose name is most like the one that is not there."""
    try:
        beside = [each.name for each in path.parent.iterdir() if each.suffix == ".toml"]
    except OSError:
        beside = []
    near = nearest_name(path.name, beside)
    return _INIT_HINT if near is None else f'Perhaps you meant "{path.with_name(near)}".'


def explain_syntax(text: str, error: Exception) -> SpecProblem:
    """The problem behind an exception of tomllib, with line, column and the line itself."""
    if isinstance(error, TooDeepError):
        return SpecProblem(path="", message="brackets or keys are nested too deeply")
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
