"""CPUs for arms that run at the same time: equal sets that have nothing in common."""

from collections.abc import Sequence


def split_cpus(cores: Sequence[Sequence[int]], count: int) -> tuple[tuple[int, ...], ...] | None:
    """``count`` disjoint sets of equally many CPUs, neighbours together; None when there are fewer CPUs than sets.

    ``cores`` has the CPUs of each physical core. Whole cores go to one set where there is at least one core for each;
    CPUs that are left over stay unused, for equal sets are worth more than large ones.
    """
    ordered = sorted((sorted(core) for core in cores if core), key=lambda core: core[0])
    parts = ordered if len(ordered) >= count else [[cpu] for core in ordered for cpu in core]
    each = len(parts) // count
    if each == 0:
        return None
    sets = [[cpu for part in parts[place * each : (place + 1) * each] for cpu in part] for place in range(count)]
    size = min(len(chosen) for chosen in sets)
    return tuple(tuple(chosen[:size]) for chosen in sets)


def has_whole_cores(cores: Sequence[Sequence[int]], count: int) -> bool:
    """Whether each of ``count`` sets can have physical cores of its own."""
    return sum(1 for core in cores if core) >= count
