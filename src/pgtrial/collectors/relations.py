"""Sizes of the tables of the load's database and of their indexes, and the dead rows in them, every ten seconds.

What a long run changes shows here: tables that grow though the rows are as many as before, and vacuums that fall
behind. The server counts rows as it goes, and exactly only when it analyzes.
"""

from pgtrial.collectors.base import NO_EXTENSION, ExtensionCollector, follow_columns, gauges

NAME = "relations"


COLLECTOR = ExtensionCollector(
    name=NAME,
    extension=NO_EXTENSION,
    metrics=(*gauges(NAME, "B", "table_bytes", "index_bytes"), *gauges(NAME, "", "live_rows", "dead_rows")),
    every=10.0,
    in_database=True,
    follow=follow_columns(NAME),
)
