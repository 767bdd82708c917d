"""The kernel's limit of dirty pages, made that of the memory that is left.

The thresholds of dirty pages are shares of the memory that is available, and fall at once where some is taken away. The
limit at which writers are held does not: it follows them by 1/32 each 200 ms, and only while writers are held, so that
for some 20 s of writing they have as much room as before. When vm.dirty_ratio or vm.dirty_bytes becomes another value
the kernel sets it anew. Source: mm/page-writeback.c, update_dirty_limit and writeback_set_ratelimit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pgtrial.hosts.operations import Operations
from pgtrial.knobs.kernel_values import apply_values, read_value
from pgtrial.model.change import Change

_RATIO, _BYTES = "/proc/sys/vm/dirty_ratio", "/proc/sys/vm/dirty_bytes"
_MOST_PERCENT = 100


def plan_limit(ops: Operations, knob: str) -> Sequence[Change]:
    """The change to make when memory has been taken away; none where that is not allowed.

    Its values are the same before and after, so that all there is to undo is one that was cut short.
    """
    if not (ops.exists(_RATIO) and ops.is_writable(_RATIO)):
        return ()
    in_bytes = read_value(ops, _BYTES) != "0"
    path = _BYTES if in_bytes else _RATIO
    value = read_value(ops, path)
    return (
        Change(
            knob=knob,
            name="limit of dirty pages",
            old={path: value},
            new={path: value},
            old_text="that of the memory before",
            new_text="that of the memory that is left",
        ),
    )


def apply_limit(ops: Operations, change: Change) -> Mapping[str, str]:
    """Raises SettingError."""
    ((path, value),) = change.new.items()
    apply_values(ops, replace(change, new={path: _other(path, int(value), ops.page_size())}))
    return apply_values(ops, change)


def _other(path: str, value: int, page: int) -> str:
    if path == _BYTES:
        return str(value + page)
    return str(value + 1 if value < _MOST_PERCENT else value - 1)
