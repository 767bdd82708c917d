"""The packages that only a fleet needs."""

import importlib.util

from pgtrial.errors import PreflightError

NEEDED = ("distributed", "cryptography")
HOW = "pip install 'distributed>=2026.8' 'cryptography>=44'"


def require_extra() -> None:
    """Raise PreflightError where one of them is missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise PreflightError(
            f"several hosts need {' and '.join(missing)}, which this Python does not have",
            hint=f"Install them beside pgtrial: {HOW}. They are the extra [fleet] of its wheel.",
        )
