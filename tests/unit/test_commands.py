"""The looks for operators' requests."""

import pytest

from chong.store.errors import StoreUnavailable
from chong.store.memory import InMemoryTaskStore
from chong.store.specimens import LATER_TERM, NODE, node_record, request, stored_run, term_record
from chong.supervisor.commands import PAGE, CommandPoller


class Node:
    """Has one task in its hands. What is asked of others is handed back: nobody knows of their runs yet."""

    def __init__(self, store, own):
        self._store = store
        self._own = own
        self.taken, self.errors, self.sizes = [], [], []

    def take(self, commands):
        self.sizes.append(len(commands))
        for command in commands:
            if command.task_id == self._own.id:
                self.taken.append(command.id)
            else:
                self._store.release_command(command.id, LATER_TERM)

    def poller(self):
        return CommandPoller(
            self._store, NODE, LATER_TERM, every=1, on_commands=self.take, known=lambda: 0, on_holds=lambda _: None,
            on_error=self.errors.append, on_success=lambda: None, on_unreadable=self.errors.append,
        )  # fmt: skip


class Failing(InMemoryTaskStore):
    """Answers so many claims, and then none."""

    claims = 1000

    def claim_commands(self, *args, **more):
        self.claims -= 1
        if self.claims < 0:
            raise StoreUnavailable("away")
        return super().claim_commands(*args, **more)


@pytest.fixture
def store():
    with Failing() as store:
        store.register_term(term_record(LATER_TERM), node_record(LATER_TERM))
        yield store


def asked(store, doubtful):
    """The node, after so many requests for a doubtful task, and a newer one for its own."""
    other, own = stored_run(store, 1), stored_run(store, 2)
    for number in range(doubtful):
        store.submit_command(request(number, other))
    store.submit_command(request(doubtful, own))
    return Node(store, own)


def test_requests_for_doubtful_tasks_hide_no_newer_one(store):
    """They are the oldest in each look, until the leases of their runs are over."""
    node = asked(store, 3 * PAGE)
    poller = node.poller()
    poller.poll()
    assert node.taken == [f"command-{3 * PAGE}"]
    assert (node.sizes, node.errors) == ([3 * PAGE + 1], [])
    poller.poll()
    assert node.sizes[1:] == [3 * PAGE]


def test_what_was_claimed_before_the_store_went_away_is_carried_out(store):
    """Else it would wait until its claim has run out."""
    node = asked(store, PAGE - 1)
    store.submit_command(request(PAGE, stored_run(store, 3)))
    store.claims = 1
    node.poller().poll()
    assert (node.taken, node.sizes) == ([f"command-{PAGE - 1}"], [PAGE])
    assert [str(error) for error in node.errors] == ["away"]
