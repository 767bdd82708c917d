"""What can be varied, one file each."""

from pgtrial.knobs.base import HostKnob

# In the order in which they are applied; undone in the reverse order.
HOST_KNOBS: tuple[HostKnob, ...] = ()
