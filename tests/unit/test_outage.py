"""An outage of the store, as a node knows it and as its log tells it."""

from structlog import get_logger
from structlog.testing import capture_logs

from chong.store.errors import StoreError, StoreUnavailable
from chong.supervisor.outage import Outage
from chong.supervisor.recurring import Recurring


class TestOutage:
    def test_it_begins_with_the_first_and_ends_with_the_last(self):
        """However often each of them asks meanwhile."""
        told = []
        outage = Outage(lambda error: told.append(str(error)), lambda: told.append("over"))
        for who in ("poll", "renewal", "poll"):
            outage.failed(who, StoreUnavailable(who))
        outage.answered("poll")
        assert (told, outage.is_on) == (["poll"], True)
        outage.answered("renewal")
        outage.answered("renewal")
        assert (told, outage.is_on) == (["poll", "over"], False)

    def test_an_error_that_the_store_answers_with_is_none(self):
        """Then it is there."""
        told = []
        outage = Outage(told.append, lambda: told.append("over"))
        outage.failed("poll", StoreError("a row makes no sense"))
        assert (told, outage.is_on) == ([], False)


class TestRecurring:
    def test_it_is_told_at_once_then_each_minute_and_when_it_is_over(self):
        """Two failures a second for two minutes are four lines; the next trouble is told at once again."""
        now = [100.0]
        with capture_logs() as lines:
            trouble = Recurring(get_logger(), "poll_failed", "poll_back", clock=lambda: now[0])
            for _ in range(241):
                trouble.again(StoreUnavailable("away"))
                now[0] += 0.5
            trouble.end()
            trouble.end()
            trouble.again(StoreUnavailable("away"))
        assert [(line["event"], line["times"]) for line in lines] == [
            ("poll_failed", 1),
            ("poll_failed", 121),
            ("poll_failed", 241),
            ("poll_back", 241),
            ("poll_failed", 1),
        ]
