"""The tables of the mix tpcc-like, and what has to hold for them after a load.

Tables and transactions are like those of TPC-C, in words and SQL of our own. Numbers of clauses are those of its
specification: TPC Benchmark C, revision 5.11.
"""

from pathlib import Path

_FOLDER = Path(__file__).parent

# Consistency conditions: the clause, and a query that tells in its only row where it does not hold.
CHECKS = {
    clause: (_FOLDER / "checks" / f"{clause}.sql").read_text(encoding="utf-8")
    for clause in ("3.3.2.1", "3.3.2.2", "3.3.2.3", "3.3.2.4", "3.3.2.8", "3.3.2.9")
}


def load_sql(warehouses: int, *, foreign_keys: bool) -> str:
    """SQL that makes the tables and fills them, with the same rows each time."""
    tables = (_FOLDER / "load.sql").read_text(encoding="utf-8").replace(":scale", str(warehouses))
    return tables + (_FOLDER / "foreign_keys.sql").read_text(encoding="utf-8") * foreign_keys
