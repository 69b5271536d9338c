"""What PostgreSQL adds to the contract: connections that die, freeze and turn read-only, and bells."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from lossy_proxy import lossy
from pg_server import backends, execute, suspended, terminate_backends
from psycopg import conninfo
from waiting import wait_until

from chong.store.errors import Refused, StoreError, StoreUnavailable
from chong.store.postgres import PostgresTaskStore
from chong.store.postgres_address import parsed
from chong.store.postgres_bell import Bell
from chong.store.specimens import (
    LATER_TERM,
    TERM,
    TTL,
    moved,
    node_record,
    put,
    read,
    request,
    stored_queued,
    stored_run,
    task_id,
    term_record,
)
from chong.store.states import Status

DEADLINE = 1.0
LIMIT = 20.0


@pytest.fixture
def store(database: str) -> Iterator[PostgresTaskStore]:
    with PostgresTaskStore(database, deadline=DEADLINE) as store:
        yield store


@contextmanager
def database_set(address: str, setting: str) -> Iterator[None]:
    """What connections that are made from now on begin with."""
    name = conninfo.conninfo_to_dict(address)["dbname"]
    execute(address, f"ALTER DATABASE {name} SET {setting}")
    try:
        yield
    finally:
        execute(address, f"ALTER DATABASE {name} RESET ALL")


def terms_renewed(address: str) -> list[str]:
    with psycopg.connect(address) as connection:
        return [term for (term,) in connection.execute("SELECT term FROM renewals ORDER BY term")]


def eventually(call: Callable[[], Any]) -> Any:
    """What a call gives that may fail for a while, because the store is away."""
    end = time.monotonic() + LIMIT
    while True:
        try:
            return call()
        except StoreUnavailable:
            assert time.monotonic() < end


class TestConnections:
    def test_a_terminated_connection_costs_one_call(self, store, database):
        """The next one gets another."""
        task = stored_queued(store)
        terminate_backends(database)
        with pytest.raises(StoreUnavailable):
            store.get(task.id)
        assert read(store, task).id == task.id

    def test_a_frozen_backend_is_given_up(self, store, database):
        """It keeps none of the server's own time-outs."""
        task = stored_queued(store)
        with suspended(backends(database)):
            begun = time.monotonic()
            with pytest.raises(StoreUnavailable):
                store.get(task.id)
            assert DEADLINE <= time.monotonic() - begun < DEADLINE + LIMIT
            assert read(store, task).id == task.id

    def test_a_call_that_waits_for_a_lock_is_given_up(self, store, database):
        """On both sides: the server keeps no transaction that nobody waits for."""
        run = stored_run(store)
        with psycopg.connect(database) as other:
            other.execute("SELECT * FROM leases FOR UPDATE")
            with pytest.raises(StoreUnavailable):
                store.expire([run.id], "event", actor="judge")
            other.rollback()
        assert read(store, run).status is run.status

    @pytest.mark.parametrize(
        "setting", ["datestyle = 'German, DMY'", "intervalstyle = 'iso_8601'", "client_encoding = 'SQL_ASCII'"]
    )
    def test_what_a_database_says_of_the_form_of_values_does_not_reach_us(self, store, database, setting):
        """A connection that is made from now on starts with it, and the driver could not read its times."""
        run = read(store, stored_run(store, 1, bucket_key="日本"))
        with database_set(database, setting), PostgresTaskStore(database) as other:
            assert other.get(run.id) == run
            assert other.leases()[0].ttl == TTL

    def test_a_write_sees_what_it_has_waited_for(self, database):
        """Whatever isolation a database has by default: else a `rebucket` would pass over what was just stored."""
        with (
            database_set(database, "default_transaction_isolation = 'repeatable read'"),
            PostgresTaskStore(database) as other,
            other._calls.writing("SELECT 1") as db,
        ):
            told = db.execute("SHOW transaction_isolation", {})
        assert told.fetchone() == {"transaction_isolation": "read committed"}

    def test_a_renewal_does_not_wait_for_a_lock(self, store, database):
        """It takes what is free; the rest is renewed next time, and not reported as gone."""
        held, free = stored_run(store, 1), stored_run(store, 2)
        with psycopg.connect(database) as other:
            other.execute("SELECT * FROM leases WHERE task_id = %s FOR UPDATE", (held.id,))
            assert store.renew(TERM, [held.id, free.id], TTL) == set()
        assert [lease.renewals for lease in store.leases()] == [0, 1]

    def test_the_renewals_of_a_term_go_with_it(self, store, database):
        """Not before its last lease is gone, and never those of a living one."""
        store.register_term(term_record(), node_record())
        store.register_term(term_record(term=LATER_TERM), node_record(term=LATER_TERM))
        run = stored_run(store)
        for term in (TERM, LATER_TERM):
            store.renew(term, [run.id], TTL)
        execute(database, "UPDATE terms SET started_at = started_at - interval '1 day'")
        store.prune_traces(timedelta(hours=1))
        assert terms_renewed(database) == [TERM, LATER_TERM]
        put(store, run, moved(run, Status.SUCCEEDED))
        store.prune_traces(timedelta(hours=1))
        assert terms_renewed(database) == [LATER_TERM]

    def test_a_lease_whose_terms_row_is_gone_is_judged_by_its_own(self, store, database):
        """By hand, or by a term that was pruned in the moment in which it renewed: nobody may wait for it for ever."""
        run = stored_run(store)
        store.renew(TERM, [run.id], TTL)
        execute(database, "DELETE FROM renewals", "UPDATE leases SET until = clock_timestamp() - interval '1 s'")
        assert [lease.is_past for lease in store.leases()] == [True]
        assert [task.id for task in store.expire([run.id], "event", actor="judge")] == [run.id]

    def test_renewals_have_a_connection_of_their_own(self, store, database):
        """All others may be stuck."""
        run = stored_run(store)
        store.renew(TERM, [run.id], TTL)

        def get() -> None:
            with suppress(StoreUnavailable):
                store.get(run.id)

        with psycopg.connect(database) as other:
            other.execute("LOCK TABLE tasks")
            stuck = [threading.Thread(target=get) for _ in range(8)]
            for thread in stuck:
                thread.start()
            assert store.renew(TERM, [run.id], TTL) == set()
            other.rollback()
        for thread in stuck:
            thread.join(LIMIT)

    def test_a_server_that_turned_read_only_is_left(self, store, database):
        """As a former primary does; the connection is not kept for the next call."""
        stored_queued(store, 1)
        name = conninfo.conninfo_to_dict(database)["dbname"]
        execute(database, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        terminate_backends(database)
        with pytest.raises(StoreUnavailable):
            stored_queued(store, 2)
        with pytest.raises(StoreUnavailable, match="read-only"):
            stored_queued(store, 2)
        execute(database, "SET default_transaction_read_only = off", f"ALTER DATABASE {name} RESET ALL")
        assert eventually(lambda: stored_queued(store, 2)).version == 1

    def test_the_others_of_the_pool_are_left_with_the_one_that_turned_read_only(self, store):
        """They lead to the same server, and would each cost a call."""
        with ExitStack() as both:
            for _ in range(2):
                connection = both.enter_context(store._calls.connected())
                connection.execute("SET default_transaction_read_only = on")
        with pytest.raises(StoreUnavailable, match="read-only"):
            stored_queued(store, 1)
        assert stored_queued(store, 1).version == 1

    def test_a_restart_costs_no_more_than_the_calls_meanwhile(self, server):
        """The pool finds the server again by itself, at once."""
        with PostgresTaskStore(server.address, deadline=DEADLINE) as store:
            task = stored_queued(store)
            server.stop(signal.SIGQUIT)
            begun = time.monotonic()
            for _ in range(3):
                with pytest.raises(StoreUnavailable):
                    store.get(task.id)
            assert time.monotonic() - begun < LIMIT
            server.start()
            assert read(store, task).id == task.id

    def test_a_closed_store_says_so(self, database):
        """And waits for the call under way."""
        store = PostgresTaskStore(database)
        store.close()
        store.close()
        with pytest.raises(StoreUnavailable, match="is closed"):
            store.deployment()

    def test_a_store_is_not_carried_across_a_fork(self, store):
        """Two processes would speak on one connection."""
        child = os.fork()
        if not child:
            try:
                store.deployment()
            except StoreError as error:
                os._exit(7 if "after the fork" in str(error) else 8)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


class TestBell:
    def test_it_rings_for_its_node_alone(self, store, database):
        """At once after it was connected too: what came before may have rung for nobody."""
        run = stored_run(store)
        with closing(store.bell(run.node)) as bell, closing(store.bell("elsewhere")) as other:
            assert [each.wait(0.0) for each in (bell, other)] == [True, True]
            assert [each.wait(0.0) for each in (bell, other)] == [False, False]
            store.submit_command(request(1, run))
            assert bell.wait(LIMIT) is True
            assert other.wait(0.0) is False

    def test_it_comes_back_after_a_lost_connection(self, store, database):
        """It stays silent meanwhile, and does not fail."""
        run = stored_run(store)
        with closing(store.bell(run.node)) as bell:
            bell.wait(0.0)
            terminate_backends(database)
            assert bell.wait(1.0) is False
            assert bell.wait(1.0) is True

    @pytest.mark.parametrize("heard", [b"LISTEM", b""], ids=["refused", "unanswered"])
    def test_a_listening_that_fails_leaves_no_connection(self, store, database, heard):
        """Nor does one that is never answered hold up its thread: it has the deadline of a call."""
        run = stored_run(store)
        parts = conninfo.conninfo_to_dict(database)
        with lossy(str(parts["host"]), int(parts.get("port") or 5432)) as proxy:
            place = parsed(database) | {"host": "127.0.0.1", "port": proxy.port}
            with closing(Bell(place, run.node, deadline=DEADLINE)) as bell:
                before = set(backends(database))
                proxy.spoil = lambda words: heard and words.replace(b"LISTEN", heard) if b"LISTEN" in words else words
                rung: list[bool] = []
                thread = threading.Thread(target=lambda: rung.append(bell.wait(0.0)), daemon=True)
                thread.start()
                thread.join(LIMIT)
                assert rung == [False]
                wait_until(lambda: set(backends(database)) <= before, "the connection is gone")
                proxy.spoil = bytes
                assert bell.wait(0.0) is True

    def test_a_server_that_takes_a_connection_and_says_nothing_holds_nobody_up(self, store, database):
        """It has the deadline of a call for that, too, whatever the address says."""
        parts = conninfo.conninfo_to_dict(database)
        with lossy(str(parts["host"]), int(parts.get("port") or 5432)) as proxy:
            proxy.spoil = lambda _: b""
            place = parsed(database) | {"host": "127.0.0.1", "port": proxy.port, "connect_timeout": 3600}
            with closing(Bell(place, "node-a", deadline=DEADLINE)) as bell:
                rung: list[bool] = []
                thread = threading.Thread(target=lambda: rung.append(bell.wait(0.0)), daemon=True)
                thread.start()
                thread.join(LIMIT)
                assert rung == [False]

    def test_it_rings_on_when_the_deadline_of_its_beginning_is_over(self, store, database):
        """On the same connection: each wait has an end of its own."""
        run = stored_run(store)
        with closing(Bell(parsed(database), run.node, deadline=DEADLINE)) as bell:
            begun = time.monotonic()
            assert bell.wait(0.0) is True
            wait_until(lambda: time.monotonic() > begun + DEADLINE, "the deadline")
            assert [bell.wait(0.1) for _ in range(3)] == [False] * 3
            store.submit_command(request(1, run))
            assert bell.wait(LIMIT) is True
            assert bell.wait(0.0) is False

    def test_it_rings_only_when_the_command_is_stored(self, store):
        """One that is refused rings nowhere."""
        run = stored_run(store)
        with closing(store.bell(run.node)) as bell:
            bell.wait(0.0)
            with pytest.raises(Refused):
                store.submit_command(replace(request(1, run), task_id=task_id(404)))
            assert bell.wait(0.1) is False
