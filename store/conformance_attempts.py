"""What every store promises about how attempts ended, and what operators have found out of lost ones."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chong.store.conformance_base import Rules
from chong.store.contract import TaskStore
from chong.store.errors import Refused
from chong.store.model import AttemptEnd, Note, TaskSnapshot
from chong.store.resolution import Resolution, note_of
from chong.store.specimens import START, SetClock, moved, step, stored_end, stored_run, task_id
from chong.store.states import Status

FULL = AttemptEnd(
    attempt=1,
    exit_code=3,
    exit_signal=9,
    forced=True,
    kind="exception",
    cause="büro.Fehler",
    cpu_seconds=1.25,
    max_rss_bytes=2**40,
)


def end_by(store: TaskStore, run: TaskSnapshot, ended: AttemptEnd) -> None:
    end = moved(run, Status.FAILED, ended_at=START)
    store.save(end, [replace(step(run, end), ended=ended)], expect_version=run.version)


class AttemptRules(Rules):
    """`Transition.ended`, `resolutions`."""

    @pytest.mark.parametrize("ended", [FULL, AttemptEnd(attempt=7)], ids=["all", "little"])
    def test_a_change_that_ends_an_attempt_keeps_how(
        self, store: TaskStore, clock: SetClock, ended: AttemptEnd
    ) -> None:
        """Beside the changes that end none; and whoever removes the task is given it."""
        run = stored_run(store)
        end_by(store, run, ended)
        assert [change.ended for change in store.history(run.id)] == [None, None, ended]
        clock.advance(1)
        (record,) = store.prunable(timedelta(0))
        assert record.history[-1].ended == ended
        assert store.prune([record]) == {run.id}

    @pytest.mark.parametrize("bad", [{"cpu_seconds": float("nan")}, {"max_rss_bytes": 2**63}], ids=str)
    def test_an_end_that_could_not_be_read_back_is_refused(self, store: TaskStore, bad: dict[str, Any]) -> None:
        """With its whole save."""
        run = stored_run(store)
        with pytest.raises(Refused, match=run.id):
            end_by(store, run, replace(FULL, **bad))
        assert len(store.history(run.id)) == len((Status.QUEUED, Status.STARTING))

    def test_the_newest_verdict_on_a_task_counts(self, store: TaskStore) -> None:
        """Of those that are asked for; other notes are none, and what was said before stays in the notes."""
        ends = [stored_end(store, number) for number in (1, 2, 3)]
        first = Resolution(verdict="failed", by="ann", at=START, reason="no file: none at all")
        second = Resolution(verdict="succeeded", by="olga", at=START - timedelta(hours=1))
        store.append([note_of(first, ends[0].id, "1"), note_of(second, ends[1].id, "1")])
        store.append([note_of(second, ends[0].id, "2")])
        store.append([Note(task_id=ends[2].id, kind="late_result", at=START, actor="a", event_id="1")])
        asked = [task.id for task in ends] + [task_id(404), "no id"]
        assert store.resolutions(asked) == {ends[0].id: second, ends[1].id: second}
        assert store.resolutions([ends[0].id]) == {ends[0].id: second}
        assert store.resolutions([]) == {}
        assert len(store.notes(ends[0].id)) == len((first, second))
