"""Logs of a server that are small and become large when they are read: ``python -m support.attack.logs``."""

import csv
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from support.attack.__main__ import import_all
from support.attack.trial import attack

_MB = 1_000_000


def _record(message: str, detail: str = "") -> list[str]:
    columns = [""] * 26
    columns[0], columns[2], columns[5], columns[11] = "2026-01-20 10:00:00.000 UTC", "app", "a", "LOG"
    columns[13], columns[14] = message, detail
    return columns


WAYS: dict[str, Callable[[], list[str]]] = {
    "text": lambda: _record(f"statement: SELECT '{'x' * 15 * _MB}'"),
    "quotes": lambda: _record(f"statement: SELECT '{chr(39) * 14 * _MB}'"),
    "parameter": lambda: _record("execute <unnamed>: SELECT $1", f"parameters: $1 = '{'x' * 15 * _MB}'"),
    "parameters": lambda: _record("execute <unnamed>: SELECT $1", f"parameters: {'$1 = 1, ' * _MB}"),
    "rows": lambda: _record(f"statement: INSERT INTO t VALUES {', '.join(f'({n})' for n in range(_MB))}"),
    "mixed": lambda: _record(f"statement: INSERT INTO t VALUES {', '.join(f'({n}), (NULL)' for n in range(_MB // 2))}"),
    "conditions": lambda: _record(f"statement: SELECT 1 FROM t WHERE {' AND '.join(f'a{n} = b' for n in range(_MB))}"),
    "nested": lambda: _record(f"statement: SELECT {'(' * _MB}1{')' * _MB}"),
    "line": lambda: _record("x" * 100 * _MB),
}


def main(way: str) -> int:
    """Give pgtrial such a log; says how it ended, and 1 if that took much."""

    def mutant(directory: Path) -> Sequence[Sequence[str]]:
        path = directory / "app.csv"
        with path.open("w", newline="") as file:
            csv.writer(file).writerow(WAYS[way]())
        return (("replay", str(path), "--dsn", "host=/nonexistent"),)

    import_all()
    outcome = attack(way, mutant)
    print(f"status {outcome.status}, {outcome.seconds:.1f} s, {outcome.memory >> 20} MB: {outcome.problem or 'held'}")
    return bool(outcome.problem)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
