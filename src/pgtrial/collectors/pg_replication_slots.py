"""pg_replication_slots: how much WAL the slot that is farthest behind keeps from being removed.

Watches read it. In an experiment a slot is part of the server, and what it holds is there before and after.
"""

from pgtrial.collectors.base import QueryCollector, gauges

NAME = "pg_replication_slots"
HELD = f"{NAME}.held_bytes"

COLLECTOR = QueryCollector(name=NAME, metrics=gauges(NAME, "B", "held_bytes"))
