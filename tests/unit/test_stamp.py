"""How a moment is written for people."""

from datetime import UTC, datetime, timedelta, timezone

from chong.cli.times import stamp
from chong.store.model import HoldScope, SharedHold
from chong.store.stamp import utc_text
from chong.supervisor.holds import Hold

MOMENT = datetime(2026, 3, 1, 14, 0, 0, 250_999, tzinfo=timezone(timedelta(hours=2)))


def test_a_moment_is_told_in_utc_whatever_its_own_zone_is():
    """To the second, or as exactly as is asked; what is beyond that is cut off."""
    assert utc_text(MOMENT) == "2026-03-01 12:00:00Z"
    assert utc_text(MOMENT, "milliseconds") == stamp(MOMENT) == "2026-03-01 12:00:00.250Z"
    assert utc_text(datetime(900, 1, 1, tzinfo=UTC)) == "0900-01-01 00:00:00Z"


def test_both_kinds_of_holds_tell_their_beginning_alike():
    """Somebody compares the two."""
    own = Hold(by="olga", since=MOMENT)
    shared = SharedHold(scope=HoldScope.NAME, target="mail", by="olga", since=MOMENT)
    assert shared.text == f"{own.text}, of the name on every node"
