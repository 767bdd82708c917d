"""Since when a statement could have been sent that waits for other sessions."""

from typing import Any

from pgtrial.workloads.replay.log import Statement
from pgtrial.workloads.replay.order import Line, Step, Transaction
from pgtrial.workloads.replay.waits import Waits

LOOKING: Any = None  # nobody waits here


def test_what_ended_behind_a_place_of_a_line_does_not_hold_up_that_place() -> None:
    """Else the replay would take time of its own for that of another session."""
    line = Line(transactions=[Transaction(session=name, begun=0.0, is_block=False) for name in "abcd"])
    steps = [
        Step(
            statement=Statement(due=0.0, text="SELECT 1", parameters=(), place=place),
            transaction=Transaction(session=str(place), begun=0.0, is_block=False),
            ends=True,
            needs=(),
            behind=((line, place),),
            after=(),
        )
        for place in range(5)
    ]
    waits = Waits(steps, looking=LOOKING)
    for transaction, end in zip(line.transactions, (2.0, 1.0, 9.0), strict=False):
        waits.note(transaction, at=end)

    found = [waits.find_end(step) for step in reversed(steps)]

    assert found == [9.0, 9.0, 2.0, 2.0, 0.0]
