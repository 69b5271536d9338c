"""What every store promises about reading tasks, their notes and their numbers."""
# ruff: noqa: PLR2004 - the numbers are the cases

import contextlib
import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chong.store.conformance_base import Rules
from chong.store.contract import TaskStore
from chong.store.errors import Refused
from chong.store.model import Beat, HoldScope, Note, SharedHold, TaskSnapshot
from chong.store.query import TaskQuery
from chong.store.specimens import (
    LATER_TERM,
    START,
    TERM,
    TTL,
    SetClock,
    put,
    queued,
    read,
    request,
    stored_end,
    stored_queued,
    stored_run,
    task_id,
)
from chong.store.states import Status

MINUTE = timedelta(minutes=1)
GROUP = task_id(99)
NO_IDS = {
    "nothing": "",
    "a NUL": "a\0b",
    "no Unicode": "\udc80",
    "far too long": "0" * 100_000,
    "capitals": task_id(10).upper(),
    "braces": f"{{{task_id(1)}}}",
    "a line": task_id(1) + "\n",
    "other digits": task_id(1).replace("0", "\u0660"),
}


def numbers(tasks: Iterable[TaskSnapshot]) -> list[int]:
    return [int(task.id[:8], 16) for task in tasks]


class QueryRules(Rules):
    """`query`, `find`, `stats`, `bucket_loads`, `notes`."""

    @pytest.mark.parametrize(
        ("conditions", "expected"),
        [
            ({}, [5, 4, 3, 2, 1]),
            ({"buckets": frozenset({1, 2})}, [3, 2, 1]),
            ({"buckets": frozenset()}, []),
            ({"statuses": frozenset({Status.STARTING, Status.SUCCEEDED})}, [5, 4]),
            ({"names": frozenset({"report.daily", "other"})}, [2]),
            ({"tags": frozenset({"io"})}, [3, 1]),
            ({"tags": frozenset({"io", "night"})}, [3]),
            ({"tags": frozenset({"io", "none"})}, []),
            ({"node": "node-b"}, [4]),
            ({"key": "acme"}, [2, 1]),
            ({"group": GROUP}, [3, 2]),
            ({"group": GROUP, "statuses": frozenset({Status.SUCCEEDED})}, []),
            ({"ids": frozenset({task_id(1), task_id(3), task_id(404)})}, [3, 1]),
            ({"since": START + MINUTE}, [5, 4]),
            ({"before": task_id(3)}, [2, 1]),
            ({"limit": 2}, [5, 4]),
            ({"buckets": frozenset({1}), "tags": frozenset({"io"}), "names": frozenset({"billing.sync"})}, [1]),
        ],
    )
    def test_a_condition_is_kept(self, store: TaskStore, conditions: dict[str, Any], expected: list[int]) -> None:
        """Newest first, and all conditions have to hold."""
        stored_queued(store, 1, bucket=1, bucket_key="acme", tags=frozenset({"io"}))
        stored_queued(store, 2, bucket=1, bucket_key="acme", name="report.daily", group_id=GROUP)
        stored_queued(store, 3, bucket=2, bucket_key="else", group_id=GROUP, tags=frozenset({"io", "night", "third"}))
        stored_run(store, 4, node="node-b", created_at=START + MINUTE)
        stored_end(store, 5, created_at=START + 2 * MINUTE)
        assert expected == numbers(store.query(TaskQuery(**conditions)))

    @pytest.mark.parametrize("text", ["\udc80", "a\0b"], ids=["no Unicode", "a NUL"])
    def test_a_look_for_what_no_store_can_hold_says_so(self, store: TaskStore, text: str) -> None:
        """And speaks of what was asked for: nothing was to be stored."""
        for ask in (
            lambda: store.query(TaskQuery(names=frozenset({text}))),
            lambda: store.query(TaskQuery(tags=frozenset({text}))),
            lambda: store.query(TaskQuery(key=text)),
            lambda: store.query(TaskQuery(node=text)),
            lambda: store.catalogue(text),
            lambda: store.terms(text),
        ):
            with pytest.raises(Refused, match="what was asked for cannot be looked up"):
                ask()

    def test_a_number_that_no_store_can_hold_is_found_nowhere(self, store: TaskStore) -> None:
        """Or is refused, in words about a look."""
        try:
            assert store.query(TaskQuery(buckets=frozenset({10**30}))) == []
        except Refused as refusal:
            assert "what was asked for cannot be looked up" in str(refusal)  # noqa: PT017 - both are right

    @pytest.mark.parametrize("text", NO_IDS.values(), ids=NO_IDS)
    def test_what_is_no_id_is_the_id_of_no_task(self, store: TaskStore, text: str) -> None:
        """Looks find nothing, writes by ids pass over it and write the others."""
        run, remark = stored_run(store), Note(task_id=text, kind="k", at=START, actor="a", event_id="1")
        assert store.get(text) is None
        assert (store.history(text), store.notes(text), store.commands(text), store.leases([text])) == ([], [], [], [])
        assert store.query(TaskQuery(ids=frozenset({text}))) == []
        assert store.find(text) == [] or text == ""
        assert store.renew(TERM, [text, run.id], TTL) == {text}
        store.touch(TERM, [Beat(text, START), Beat(run.id, START)])
        store.append([remark, replace(remark, task_id=run.id)])
        assert (read(store, run).last_heartbeat_at, len(store.notes(run.id))) == (START, 1)
        assert store.expire([text], "expire", actor="judge") == []
        assert len(store.adopt(TERM, LATER_TERM, [text, run.id], TTL, "adopt")) == 1
        with pytest.raises(Refused, match="nothing to stop"):
            store.submit_command(replace(request(1, run), task_id=text))
        with pytest.raises(Refused, match="cannot be stored"):
            put(store, None, queued(id=text))

    @pytest.mark.parametrize("text", ["\udc80", "a\0b"], ids=["no Unicode", "a NUL"])
    def test_a_text_that_no_store_can_hold_is_refused(self, store: TaskStore, text: str) -> None:
        """As a name of anything: what one store refuses, no other keeps."""
        run = stored_run(store)
        for write in (
            lambda: stored_queued(store, 2, name=text),
            lambda: stored_queued(store, 2, tags=frozenset({text})),
            lambda: store.submit_command(request(1, run, reason=text)),
            lambda: store.place_hold(SharedHold(scope=HoldScope.NAME, target=text, by="olga")),
            lambda: store.lift_hold(HoldScope.NAME, text),
            lambda: store.complete_command(text, "done"),
            lambda: store.claim_firing(text, None, START, node="node-a", event_id="1"),
        ):
            with pytest.raises(Refused, match="cannot be stored"):
                write()
        assert store.holds().holds == ()

    def test_a_name_that_is_far_too_long_is_kept_or_refused(self, store: TaskStore) -> None:
        """An outage would be waited out, for ever."""
        name = random.Random(1).randbytes(20_000).hex()
        for write in (
            lambda: store.place_hold(SharedHold(scope=HoldScope.NAME, target=name, by="olga")),
            lambda: stored_queued(store, name=name),
        ):
            with contextlib.suppress(Refused):
                write()
        assert len(store.query(TaskQuery(names=frozenset({name})))) == len(store.holds().holds)

    def test_pages_follow_each_other_without_gap_or_repeat(self, store: TaskStore) -> None:
        """The last id of a page leads to the next one, also when a newer task came in between."""
        for number in range(1, 8):
            stored_queued(store, number)
        pages, before = [], None
        while page := store.query(TaskQuery(limit=3, before=before)):
            pages.append(numbers(page))
            before = page[-1].id
            stored_queued(store, 10 + len(pages))
        assert pages == [[7, 6, 5], [4, 3, 2], [1]]

    def test_a_query_gives_whole_snapshots(self, store: TaskStore) -> None:
        """The same as get(), lease included."""
        run = stored_run(store)
        assert [store.get(run.id)] == store.query(TaskQuery())

    @pytest.mark.parametrize(
        ("part", "expected"),
        [("00000001", [1]), ("0001", [1]), ("0000", [3, 2, 1]), ("ffff", []), (task_id(2), [2]), ("", [3, 2, 1])],
    )
    def test_a_task_is_found_by_either_end_of_its_id(self, store: TaskStore, part: str, expected: list[int]) -> None:
        """Beginning or end, newest first, each task once."""
        for number in (1, 2, 3):
            stored_queued(store, number)
        assert expected == numbers(store.find(part))

    @pytest.mark.parametrize("part", ["%", "_", "*", "?", "0000%"])
    def test_nothing_in_an_id_stands_for_something_else(self, store: TaskStore, part: str) -> None:
        """Wildcards of SQL find nothing."""
        stored_queued(store)
        assert store.find(part) == []

    def test_finding_keeps_its_limit(self, store: TaskStore) -> None:
        """The newest ones are given."""
        for number in (1, 2, 3):
            stored_queued(store, number)
        assert numbers(store.find("0000", limit=2)) == [3, 2]

    def test_stats_count_every_status(self, store: TaskStore) -> None:
        """Statuses without tasks are there with 0."""
        stored_queued(store, 1, bucket=1)
        stored_queued(store, 2)
        stored_end(store, 3, bucket=2)
        expected = dict.fromkeys(Status, 0) | {Status.QUEUED: 2, Status.SUCCEEDED: 1}
        assert expected == store.stats()

    def test_stats_of_buckets_leave_the_rest_out(self, store: TaskStore) -> None:
        """Keyless tasks belong to no bucket."""
        stored_queued(store, 1, bucket=1)
        stored_queued(store, 2)
        stored_end(store, 3, bucket=2)
        assert store.stats(frozenset({1, 9}))[Status.QUEUED] == 1
        assert sum(store.stats(frozenset({2})).values()) == 1

    def test_bucket_loads_show_open_work(self, store: TaskStore, clock: SetClock) -> None:
        """Queued, running, expired and the longest wait; keyless first, finished work not at all."""
        stored_queued(store, 1, bucket=2)
        stored_queued(store, 2, bucket=2, status_changed_at=START - MINUTE)
        stored_run(store, 3, bucket=1)
        stored_queued(store, 4)
        stored_end(store, 5, bucket=9)
        clock.advance(60)
        keyless, first, second = store.bucket_loads()
        assert _load(keyless) == (None, 1, 0, 0, MINUTE)
        assert _load(first) == (1, 0, 1, 1, None)
        assert _load(second) == (2, 2, 0, 0, 2 * MINUTE)

    def test_notes_are_kept_in_order(self, store: TaskStore, clock: SetClock) -> None:
        """With both times; they change no state."""
        run = stored_run(store)
        first = Note(task_id=run.id, kind="odd_exit", at=START, actor="a", event_id="2", detail="名")
        second = replace(first, kind="late_result", event_id="1", detail=None)
        store.append([first, second])
        stored = [replace(note, stored_at=clock.now) for note in (first, second)]
        assert stored == store.notes(run.id)
        assert len(store.history(run.id)) == 2

    def test_a_note_of_the_same_event_is_ignored(self, store: TaskStore) -> None:
        """Also when the rest of the batch is new."""
        run = stored_run(store)
        note = Note(task_id=run.id, kind="odd_exit", at=START, actor="a", event_id="1")
        store.append([note])
        store.append([replace(note, kind="other"), replace(note, event_id="2")])
        assert [kept.kind for kept in store.notes(run.id)] == ["odd_exit", "odd_exit"]

    @pytest.mark.parametrize(
        "bad", [{"detail": "a\0b"}, {"kind": "\udc80"}, {"at": START.replace(tzinfo=None)}, {"actor": None}], ids=str
    )
    def test_a_note_that_cannot_be_stored_does_not_cost_the_others(self, store: TaskStore, bad: Any) -> None:
        """The rest is written, then the bad one is named; whoever tries again writes nothing twice."""
        runs = [stored_run(store, number) for number in (1, 2, 3)]
        notes = [Note(task_id=run.id, kind="odd_exit", at=START, actor="a", event_id="1") for run in runs]
        notes[1] = replace(notes[1], **bad)
        for _ in range(2):
            with pytest.raises(Refused, match=runs[1].id):
                store.append(notes)
        assert [len(store.notes(run.id)) for run in runs] == [1, 0, 1]

    def test_a_note_on_no_task_is_ignored(self, store: TaskStore) -> None:
        """Nothing would ever show it or remove it; the rest of its batch is kept."""
        run = stored_run(store)
        note = Note(task_id=task_id(404), kind="odd_exit", at=START, actor="a", event_id="1")
        store.append([note, replace(note, task_id=run.id)])
        assert (len(store.notes(task_id(404))), len(store.notes(run.id))) == (0, 1)


def _load(load: Any) -> tuple[Any, ...]:
    return (load.bucket, load.queued, load.running, load.expired, load.oldest_wait)
