"""What every store promises about an operator's requests."""

from dataclasses import replace
from datetime import timedelta

import pytest

from chong.store.conformance_base import Rules
from chong.store.contract import TaskStore
from chong.store.errors import Refused
from chong.store.model import Action
from chong.store.specimens import (
    FOREIGN_TERM,
    LATER_TERM,
    NODE,
    TERM,
    TTL,
    SetClock,
    queued,
    request,
    stored_end,
    stored_run,
    task_id,
)


class CommandRules(Rules):
    """`submit_command`, `claim_commands`, `complete_command`, `release_command`, `commands`."""

    def test_a_command_comes_back_as_it_was_submitted(self, store: TaskStore, clock: SetClock) -> None:
        """With its reason, and neither claimed nor finished; the store says when it took it."""
        command = request(1, stored_run(store), action=Action.PAUSE, reason="wegen 名")
        store.submit_command(command)
        assert [replace(command, stored_at=clock.now)] == store.commands(command.task_id)

    def test_a_command_for_an_unknown_task_is_refused(self, store: TaskStore) -> None:
        """Nobody would ever claim it."""
        with pytest.raises(Refused):
            store.submit_command(request(1, queued(404)))

    def test_a_command_submitted_twice_is_there_once(self, store: TaskStore, clock: SetClock) -> None:
        """The id says that it is the same; it was stored when it came first."""
        run = stored_run(store)
        store.submit_command(request(1, run))
        stored_at = clock.now
        clock.advance(5)
        store.submit_command(request(1, run))
        assert [stored_at] == [command.stored_at for command in store.commands(run.id)]

    def test_commands_are_claimed_oldest_first(self, store: TaskStore, clock: SetClock) -> None:
        """Up to the limit, each with its claim."""
        run = stored_run(store)
        for number in (2, 3, 1):
            store.submit_command(request(number, run))
        claimed = store.claim_commands(NODE, TERM, lease=TTL, limit=2)
        assert [command.id for command in claimed] == ["command-1", "command-2"]
        assert {(TERM, clock.now + TTL)} == {(c.claimed_by, c.claimed_until) for c in claimed}
        assert [c.id for c in store.commands(run.id)] == ["command-1", "command-2", "command-3"]

    def test_commands_are_claimed_in_the_order_in_which_they_were_stored(
        self, store: TaskStore, clock: SetClock
    ) -> None:
        """Of two issuers one has a clock that is ahead: what was asked last is carried out last."""
        run = stored_run(store)
        store.submit_command(request(1, run, issued_at=clock.now + timedelta(hours=1)))
        clock.advance(1)
        store.submit_command(request(2, run, issued_at=clock.now))
        assert [command.id for command in store.commands(run.id)] == ["command-1", "command-2"]
        claimed = store.claim_commands(NODE, TERM, lease=TTL)
        assert [command.id for command in claimed] == ["command-1", "command-2"]

    def test_a_claimed_command_is_given_to_nobody_else(self, store: TaskStore, clock: SetClock) -> None:
        """Not while the claim runs."""
        store.submit_command(request(1, stored_run(store)))
        store.claim_commands(NODE, TERM, lease=TTL)
        clock.advance(30)
        assert store.claim_commands(NODE, LATER_TERM, lease=TTL) == []

    @pytest.mark.parametrize("seconds", [31, -1])
    def test_a_past_claim_can_be_claimed_anew(self, store: TaskStore, clock: SetClock, seconds: float) -> None:
        """After its end, and when the clock jumped back."""
        store.submit_command(request(1, stored_run(store)))
        store.claim_commands(NODE, TERM, lease=TTL)
        clock.advance(seconds)
        (command,) = store.claim_commands(NODE, LATER_TERM, lease=TTL)
        assert command.claimed_by == LATER_TERM

    def test_another_nodes_commands_are_not_claimed(self, store: TaskStore) -> None:
        """A command goes to the node of its task."""
        store.submit_command(request(1, stored_run(store, 1, node="node-b")))
        assert store.claim_commands(NODE, TERM, lease=TTL) == []
        assert len(store.claim_commands("node-b", FOREIGN_TERM, lease=TTL)) == 1

    def test_a_completed_command_is_over(self, store: TaskStore, clock: SetClock) -> None:
        """It keeps its outcome, and nobody claims it."""
        run = stored_run(store)
        store.submit_command(request(1, run))
        store.complete_command("command-1", "too_late", "ended before")
        (command,) = store.commands(run.id)
        assert ("too_late", "ended before", clock.now) == (
            command.outcome,
            command.detail,
            command.finished_at,
        )
        assert store.claim_commands(NODE, TERM, lease=TTL) == []

    def test_the_first_end_of_a_command_stands(self, store: TaskStore, clock: SetClock) -> None:
        """Ending it again, or handing it back, changes nothing."""
        run = stored_run(store)
        store.submit_command(request(1, run))
        store.complete_command("command-1", "done")
        before = store.commands(run.id)
        clock.advance(5)
        store.complete_command("command-1", "refused", "again")
        store.release_command("command-1", TERM)
        assert before == store.commands(run.id)

    def test_a_released_command_can_be_claimed_at_once(self, store: TaskStore, clock: SetClock) -> None:
        """It is open again, and not finished."""
        run = stored_run(store)
        store.submit_command(request(1, run))
        store.claim_commands(NODE, TERM, lease=TTL)
        store.release_command("command-1", TERM)
        assert [request(1, run, stored_at=clock.now)] == store.commands(run.id)
        assert len(store.claim_commands(NODE, LATER_TERM, lease=TTL)) == 1

    def test_a_term_cannot_release_the_claim_of_the_next_one(self, store: TaskStore, clock: SetClock) -> None:
        """Its own ran out; the command would be given to a third one while the second acts on it."""
        run = stored_run(store)
        store.submit_command(request(1, run))
        store.claim_commands(NODE, TERM, lease=TTL)
        clock.advance(31)
        store.claim_commands(NODE, LATER_TERM, lease=TTL)
        store.release_command("command-1", TERM)
        assert [command.claimed_by for command in store.commands(run.id)] == [LATER_TERM]
        assert store.claim_commands(NODE, TERM, lease=TTL) == []

    def test_a_term_can_end_a_command_that_the_next_one_has_claimed(self, store: TaskStore, clock: SetClock) -> None:
        """What it tells of the task is so, whoever tells it; and the end of the next one changes nothing."""
        run = stored_run(store)
        store.submit_command(request(1, run))
        store.claim_commands(NODE, TERM, lease=TTL)
        clock.advance(31)
        store.claim_commands(NODE, LATER_TERM, lease=TTL)
        store.complete_command("command-1", "done")
        store.complete_command("command-1", "too_late")
        assert [command.outcome for command in store.commands(run.id)] == ["done"]

    def test_commands_that_are_not_there_can_be_ended_and_released(self, store: TaskStore) -> None:
        """Their task may have been pruned meanwhile."""
        store.complete_command("nothing", "done")
        store.release_command("nothing", TERM)
        assert store.commands(task_id(404)) == []

    def test_requests_for_a_lost_run_end(self, store: TaskStore, clock: SetClock) -> None:
        """Its node may never come back to answer them; those for others stay open."""
        run = stored_run(store)
        clock.advance(31)
        living = stored_run(store, 2)
        for number, task in enumerate((run, living)):
            store.submit_command(request(number, task))
        store.expire([run.id, living.id], "event", actor="judge")
        (closed,), (still_open,) = store.commands(run.id), store.commands(living.id)
        assert (closed.outcome, closed.detail, closed.finished_at) == ("too_late", "the task is lost", clock.now)
        assert still_open.finished_at is None

    def test_a_request_for_what_has_ended_is_closed_at_once(self, store: TaskStore, clock: SetClock) -> None:
        """Whoever asked had looked before the end; nobody is left to take it up."""
        task = stored_end(store)
        for _ in range(2):
            store.submit_command(request(1, task))
        (command,) = store.commands(task.id)
        assert (command.outcome, command.detail) == ("too_late", "the task is succeeded")
        assert command.finished_at == clock.now
        assert store.claim_commands(NODE, TERM, lease=TTL) == []
