"""The hint for a name that does not exist: the nearest one that does, or all of them where they are few."""

import difflib
from collections.abc import Iterable

_FEW = 16  # names, which fit into a line or two


def hint_name(wrong: str, valid: Iterable[str], *, what: str = "Available values") -> str:
    """ "Perhaps you meant "olap". Available values: oltp, olap." """
    names = list(valid)
    near = nearest_name(wrong, names)
    hints = [f'Perhaps you meant "{near}".'] if near is not None else []
    if names and len(names) <= _FEW:
        hints.append(f"{what}: {', '.join(names)}.")
    return " ".join(hints)


def nearest_name(wrong: str, valid: Iterable[str]) -> str | None:
    """The most similar name, without regard to case, hyphens and underscores; None when nothing is similar."""
    by_form = {_form(name): name for name in valid}
    found = difflib.get_close_matches(_form(wrong), by_form, n=1, cutoff=0.6)
    if found:
        return by_form[found[0]]
    # A name is also found by its last part: "tps" is "pgbench.tps", "p95" is "pgbench.latency_p95".
    ends = [name for form, name in by_form.items() if form.endswith(_form(wrong)) and len(wrong) > 2]
    return ends[0] if ends else None


def _form(name: str) -> str:
    return name.lower().replace("-", "_")
