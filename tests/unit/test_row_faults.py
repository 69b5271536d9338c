"""What a supervisor says of rows that it cannot read."""

import pytest
import structlog
from structlog.testing import capture_logs

from chong.store.errors import UnreadableRow
from chong.supervisor.row_faults import EVERY_SECONDS, MOST, RowFaults


def fault(number: int = 1, table: str = "holds") -> UnreadableRow:
    return UnreadableRow(table, f"key-{number}", "since", "a time", "noon")


def test_each_fault_is_told_at_once_and_then_seldom():
    """However often its row is read."""
    now = [0.0]
    with capture_logs() as said:
        faults = RowFaults(structlog.get_logger(), clock=lambda: now[0])
        for number in (1, 1, 2, 1, 2):
            faults.tell(fault(number))
        assert [each["error"] for each in said] == [str(fault(1)), str(fault(2))]
        now[0] = EVERY_SECONDS
        faults.tell(fault(1))
    assert [each["event"] for each in said] == ["row_unreadable"] * 3


def test_of_very_many_the_first_are_told():
    """A log has a bound, and so has what is remembered."""
    with capture_logs() as said:
        faults = RowFaults(structlog.get_logger())
        for number in range(2 * MOST):
            faults.tell(fault(number))
    assert len(said) == MOST


@pytest.mark.parametrize("table", ["tasks", "transitions", "leases", "terms", "notes"])
def test_what_decides_over_a_task_is_not_done_without(table):
    """From a part of it it could be concluded that nothing was begun."""
    with pytest.raises(UnreadableRow):
        RowFaults(structlog.get_logger()).tell(fault(table=table))
