"""Result folders without a server: simulated experiments whose true effects are known.

For tests of whatever reads result folders. Everything is drawn from a seed, with the standard library only.
"""

from support.files import TransactionRow, write_transactions
from support.folder import write_result_folder
from support.simulation import (
    COUNTERS,
    DUET,
    EXPERIMENT,
    INTERLEAVED,
    SETTINGS,
    WAITS,
    Simulation,
    detailed_simulation,
)

__all__ = [
    "COUNTERS",
    "DUET",
    "EXPERIMENT",
    "INTERLEAVED",
    "SETTINGS",
    "WAITS",
    "Simulation",
    "TransactionRow",
    "detailed_simulation",
    "write_result_folder",
    "write_transactions",
]
