"""Writes that wait for the store, as they lie in the spool and are found again."""

from datetime import timedelta

import pytest

from chong.store.conformance_saves import full_task
from chong.store.model import Completion, LeaseGrant, Note, Progress, Save, Usage
from chong.store.specimens import START, moved, queued, save_of
from chong.store.states import Status
from chong.supervisor.events import SaveState
from chong.supervisor.outbox import Outbox
from chong.supervisor.unsent import from_text, in_rounds, to_text, unsent_of

LEASE = LeaseGrant("node-a.1", timedelta(seconds=30.5))
NOTE = Note(task_id=queued().id, kind="odd_exit", at=START, actor="node-a.1", event_id="e", detail="größe")


def test_a_save_comes_back_as_it_was():
    """Every field of it: awkward results, big numbers, times, lengths of time and sets."""
    task = moved(full_task(), Status.STARTING, progress=Progress(1.5, 3, "名"), usage=Usage(1.25, 10, None))
    save = save_of(full_task(), task, lease=LEASE, completes=(Completion("c", "done", "why"),))
    unsent = unsent_of(save)
    assert (unsent, save) == (from_text(unsent.id, to_text(unsent)), unsent.write)


def test_a_note_comes_back_as_it_was():
    """As a save."""
    unsent = unsent_of(NOTE)
    assert unsent == from_text(unsent.id, to_text(unsent))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", "7", '{"save": {}}', '{"note": 1}', '{"beat": {}}', '{"save": {}, "note": {}}', "[" * 99999],
)
def test_what_is_neither_is_refused(text: str):
    """As a ValueError, whatever it is."""
    with pytest.raises(ValueError, match=r"expected|Expecting"):
        from_text("x", text)


def test_a_task_s_saves_follow_one_another():
    """Those of several tasks go together."""
    first, second = (
        [save_of(None, task := queued(number)), save_of(task, moved(task, Status.CANCELLED))] for number in (1, 2)
    )
    assert in_rounds([*first, *second]) == [[first[0], second[0]], [first[1], second[1]]]
    assert in_rounds([]) == []


def test_only_what_the_spool_has_not_got_goes_there():
    """A save that joins one which waits takes its place; what is sent, or given up, need not lie there any more."""
    outbox = Outbox(LEASE)
    task = queued()
    save = save_of(None, task)
    outbox.add(save_state(save))
    batch = outbox.take(beats=False)
    outbox.add_note(NOTE)
    later = save_state(save_of(task, moved(task, Status.CANCELLED)))
    outbox.add(later)
    waiting = [f"{task.id} save 0", f"{task.id} note e", f"{task.id} save 1"]
    assert [unsent.id for unsent in outbox.take_unspooled()] == waiting
    assert (outbox.take_unspooled(), outbox.take_needless()) == ([], [])
    batch.verdicts = [None]
    outbox.settle(batch)
    assert outbox.take_needless() == waiting[:1]
    outbox.give_up(task.id)
    assert outbox.take_needless() == waiting[2:]
    batch = outbox.take(beats=False)
    outbox.settle(batch)
    assert (outbox.take_needless(), outbox.take_unspooled()) == ([waiting[1]], [])


def test_what_the_disk_does_not_take_goes_there_later():
    """Unless it is sent meanwhile, or something newer takes its place."""
    outbox = Outbox(LEASE)
    first, second = queued(1), queued(2)
    for task in (first, second):
        outbox.add(save_state(save_of(None, task)))
    refused = outbox.take_unspooled()
    batch = outbox.take(beats=False)
    batch.saves, batch.verdicts = batch.saves[:1], [None]
    outbox.settle(batch)
    outbox.put_back_unspooled(refused)
    assert outbox.take_unspooled() == refused[1:]


def test_what_is_sent_at_once_never_goes_there():
    """Nothing is written to the spool while the store answers."""
    outbox = Outbox(LEASE)
    outbox.add(save_state(save_of(None, queued())))
    batch = outbox.take(beats=False)
    batch.verdicts = [None]
    outbox.settle(batch)
    assert (outbox.take_unspooled(), outbox.take_needless()) == ([], [])


def save_state(save: Save) -> SaveState:
    return SaveState(save.snapshot, save.transitions)
