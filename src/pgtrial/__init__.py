"""Validate claims about PostgreSQL performance by experiment."""

from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgtrial.export.notebook import Results

__version__ = "0.1.0"
__all__ = ["__version__", "open"]


def open(folder: "str | PathLike[str]") -> "Results":
    """Open a result folder from Python: its findings, and its tables for Arrow, pandas or polars; see docs/python.md.

    Analyses the folder again without writing to it. Raises pgtrial.errors.StoreError if it is not a result folder, is
    damaged, or comes from a newer pgtrial.
    """
    from pathlib import Path

    from pgtrial.export.notebook import open_results

    return open_results(Path(folder))
