"""How the effect of everything that an arm can set settles, and what twins on one machine share of it.

It decides which methods are valid: while arms take turns in short slices, an effect that needs longer than a slice, or
that lies in something the twins have in common, is spread over all of them and looks smaller than it is.
Sources: PostgreSQL's documentation and source (checkpointer.c, bgwriter.c, fd.c), the kernel's documentation
(admin-guide/sysctl, admin-guide/mm/transhuge, block/queue-sysfs) and source (mm/page-writeback.c, mm/readahead.c).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgtrial.knobs import KNOBS, is_list
from pgtrial.knobs.declaration import Among, Knob, Rule, Shared
from pgtrial.knobs.extensions import Extensions
from pgtrial.knobs.postgresql import LIBRARIES, POSTGRESQL
from pgtrial.model.arm import Arm

# What gives each arm its own of it, in turns, as knob and key that all arms set. A page is charged to the group whose
# process touches it first, and a group at its limit reclaims of its own list of pages in the process that asks for one
# (mm/memcontrol.c, try_charge_memcg; mm/vmscan.c, try_to_free_mem_cgroup_pages). The rest stays shared in any group.
# Dirty pages: version 1 has one limit for all groups, and in version 2 the flusher writes those of a frozen group in
# another's turn, too (mm/page-writeback.c, balance_dirty_pages). Queues: a loop device has one of its own, but its
# requests end in that of the disk below, and nobody knows before what that can do beside its limits.
ISOLATED_BY: Mapping[Shared, tuple[str, str]] = {
    Shared.PAGE_CACHE: ("cgroup", "memory"),
    Shared.MEMORY: ("cgroup", "memory"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A setting in which arms differ. ``label`` names it; ``knob`` is the table in which it stands, as ``key``."""

    knob: str
    key: str
    label: str
    rule: Rule
    among_twins: Among
    can_be_switched: bool  # under a running server


def find_differences(arms: Sequence[Arm]) -> tuple[Difference, ...]:
    """Every setting, of PostgreSQL and around it, that is not the same in all arms."""
    found: dict[tuple[str, str], Difference] = {}
    tables = [{POSTGRESQL: arm.settings, **arm.knobs} for arm in arms]
    for knob, key in dict.fromkeys((name, key) for table in tables for name in table for key in table[name]):
        values = [table.get(knob, {}).get(key) for table in tables]
        if len(set(values)) == 1:
            continue
        libraries = is_list(knob, key) or (knob == POSTGRESQL and key in LIBRARIES)
        for name in _not_in_all(values) if libraries else (key,):
            table = Extensions.name if libraries else knob
            turned = KNOBS[table]
            found.setdefault(
                (table, name),
                Difference(
                    knob=table,
                    key=name,
                    label=turned.label_of(name),
                    rule=turned.rule_among(name, [value for value in values if value is not None]),
                    among_twins=_among_twins(turned, key, [table.get(knob, {}) for table in tables]),
                    can_be_switched=turned.can_be_switched(name),
                ),
            )
    return tuple(found.values())


def _among_twins(knob: Knob, key: str, tables: Sequence[Mapping[str, str]]) -> Among:
    """What every arm's cluster is made with, such as an image or a place of its own, each has for itself."""
    is_made = all(key in knob.made_with(table) for table in tables)
    return Among.OWN if is_made else knob.among_twins


def _not_in_all(lists: Sequence[str | None]) -> tuple[str, ...]:
    """Elements of lists, joined by commas, that are not in every one of them; in order of appearance."""
    parts = [{part.strip(): None for part in (text or "").split(",") if part.strip()} for text in lists]
    return tuple(name for name in dict.fromkeys(n for part in parts for n in part) if any(name not in p for p in parts))
