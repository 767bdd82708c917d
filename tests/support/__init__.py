"""What tests of several folders share: simulated result folders whose true effects are known, and waiting for a state.

Everything is drawn from a seed, with the standard library only.
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
from support.waiting import PATIENCE, reached, wait_until

__all__ = [
    "COUNTERS",
    "DUET",
    "EXPERIMENT",
    "INTERLEAVED",
    "PATIENCE",
    "SETTINGS",
    "WAITS",
    "Simulation",
    "TransactionRow",
    "detailed_simulation",
    "reached",
    "wait_until",
    "write_result_folder",
    "write_transactions",
]
