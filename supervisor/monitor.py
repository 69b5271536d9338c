"""Looks over the whole deployment now and then, and keeps the store's alerts."""

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from chong.store.alert import AlertChanges, Finding
from chong.store.contract import TaskStore
from chong.store.errors import Refused, StoreError
from chong.supervisor.advice import Kind
from chong.supervisor.checks import findings
from chong.supervisor.recurring import Recurring
from chong.supervisor.share import ConfiguredBuckets

QUIET_LOOKS = 2.5
"""Looks without a finding after which its alert is over: one that fails, or is late, clears nothing."""


def lead(before: datetime, store: datetime, after: datetime) -> timedelta:
    """How far this clock is ahead of the store's at least, which was read between the two moments."""
    return max(before - store, timedelta(0)) + min(after - store, timedelta(0))


class Monitor:
    """`look` is called in a thread of its own, as is `trouble`.

    `on_changes` must only hand over; it hears what a report has changed, and what was found then.
    """

    def __init__(
        self,
        store: TaskStore,
        term: str,
        *,
        every: float,
        orphan_after: float,
        configured: ConfiguredBuckets,
        on_changes: Callable[[AlertChanges, Sequence[Finding]], None],
        trouble: Recurring,
    ) -> None:
        self._store = store
        self._term = term
        self._every = every
        self._orphan_after = timedelta(seconds=orphan_after)
        self._configured = configured
        self._on_changes = on_changes
        self._trouble = trouble
        self._event = uuid.uuid4().hex
        self._stuck: set[str] = set()
        """What the look before has found to be stuck."""

    def look(self) -> float:
        """Look once; the seconds until the next time."""
        try:
            changes, found = self._report()
        except (StoreError, Refused) as error:
            self._trouble.again(error)
        else:
            self._on_changes(changes, found)
            self._trouble.end()
            # Only now: a report whose answer was lost is made again, and its changes are told after all.
            self._event = uuid.uuid4().hex
        return self._every

    def _report(self) -> tuple[AlertChanges, Sequence[Finding]]:
        before = datetime.now(UTC)
        survey = self._store.survey(still=self._orphan_after)
        ahead = lead(before, survey.now, datetime.now(UTC))
        self._store.report_clock(self._term, ahead)
        found = self._confirmed(findings(survey, self._configured))
        quiet = timedelta(seconds=self._every * QUIET_LOOKS)
        return self._store.report_findings(found, quiet=quiet, event_id=self._event), found

    def _confirmed(self, found: Sequence[Finding]) -> Sequence[Finding]:
        """Without what is stuck for the first time: when a hold is lifted its queue has not moved for long, and is
        about to.
        """
        before, self._stuck = self._stuck, {one.subject for one in found if one.kind == Kind.STUCK}
        return [one for one in found if one.kind != Kind.STUCK or one.subject in before]
