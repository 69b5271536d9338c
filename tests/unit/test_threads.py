"""Threads beside the main loop: whatever ends one of them is told, because a silent one is worse than none."""

import threading

import pytest

from chong.store.memory import InMemoryTaskStore
from chong.store.model import LeaseGrant
from chong.store.specimens import TERM, TTL
from chong.supervisor.courier import Courier
from chong.supervisor.loop import Loop
from chong.supervisor.outbox import Outbox
from chong.supervisor.ticker import Ticker


class SurpriseError(Exception):
    """Nobody expects it."""


def test_a_ticker_repeats_until_it_is_closed():
    """At the pace that its act says."""
    turns = threading.Semaphore(0)
    ticker = Ticker("test", lambda: turns.release() or 0.0, on_fault=pytest.fail)
    ticker.start()
    assert all(turns.acquire(timeout=10) for _ in range(3))
    ticker.close(10)


def test_a_nudge_cuts_the_pause_short():
    """Also one that came while it acted."""
    turns = threading.Semaphore(0)
    ticker = Ticker("test", lambda: turns.release() or 3600.0, on_fault=pytest.fail)
    ticker.start()
    for _ in range(3):
        assert turns.acquire(timeout=10)
        ticker.nudge()
    assert turns.acquire(timeout=10)
    ticker.close(10)


def test_a_ticker_that_fails_says_so():
    """Once, with the error."""
    told = []
    heard = threading.Event()

    def act():
        raise SurpriseError

    ticker = Ticker("test", act, on_fault=lambda error: told.append(error) or heard.set())
    ticker.start()
    assert heard.wait(10)
    ticker.close(10)
    assert [type(error) for error in told] == [SurpriseError]


def test_a_courier_that_fails_ends_the_main_loop():
    """Otherwise nothing would ever be stored again, while leases went on being renewed."""
    loop = Loop()
    outbox = Outbox(LeaseGrant(TERM, TTL))
    courier = Courier(loop, InMemoryTaskStore(), TERM, outbox, recipient=None, outage=None, num_buckets=lambda: 64)

    def job():
        raise SurpriseError

    courier.do(job)
    with pytest.raises(SurpriseError):
        loop.run(lambda: None)
    courier.close(10)
    loop.close()
