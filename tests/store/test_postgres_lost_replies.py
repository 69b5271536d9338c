"""The server did it, and its answer never came: whatever is written is written again, and is there once.

A proxy loses the answer behind the commit. Every writing method of the contract has its case here.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from lossy_proxy import LossyProxy, lossy
from pg_server import execute, url_of
from psycopg import conninfo

from chong.store.alert import Finding
from chong.store.contract import TaskStore
from chong.store.errors import Refused, StoreUnavailable
from chong.store.model import Beat, CatalogueEntry, Completion, FiringClaim, HoldScope, LeaseGrant, Note, SharedHold
from chong.store.partitions import Month
from chong.store.postgres import PostgresTaskStore
from chong.store.query import TaskQuery
from chong.store.specimens import (
    LATER_TERM,
    NODE,
    START,
    TERM,
    TTL,
    moved,
    node_record,
    put,
    queued,
    read,
    request,
    save_of,
    start_of,
    stored_end,
    stored_queued,
    stored_run,
    task_id,
    term_record,
)
from chong.store.states import Status

Call = Callable[[], Any]
Check = Callable[[Any], None]
Case = Callable[[PostgresTaskStore, str], tuple[Call, Check]]
"""From a store and its address: the write, and what has to be true of the second answer and of what is stored."""

CASES: dict[str, Case] = {}
NOTHING_STORED = timedelta(0)


def case(prepare: Case) -> Case:
    CASES[prepare.__name__] = prepare
    return prepare


def expect(found: Any, wanted: Any) -> None:
    assert found == wanted


# --- tasks -----------------------------------------------------------------------------------------------------


@case
def save_many(store, address):
    run = stored_run(store)
    store.submit_command(request(1, run))
    end = save_of(run, moved(run, Status.SUCCEEDED, ended_at=START), completes=(Completion("command-1"),))
    waiting = stored_queued(store, 2)
    start = replace(save_of(waiting, start_of(waiting)), lease=LeaseGrant(TERM, TTL))
    saves = [end, start, save_of(None, queued(3, unique_key="once"))]

    def check(verdicts):
        expect(verdicts, [None] * 3)
        expect([len(store.history(task_id(number))) for number in (1, 2, 3)], [3, 2, 1])
        expect([lease.task_id for lease in store.leases()], [waiting.id])
        expect([command.outcome for command in store.commands(run.id)], ["done"])

    return lambda: store.save_many(saves), check


@case
def append(store, address):
    task = stored_queued(store)
    note = Note(task_id=task.id, kind="odd", at=START, actor="tester", event_id="1")
    return lambda: store.append([note]), lambda _: expect(len(store.notes(task.id)), 1)


@case
def prune(store, address):
    kept, gone = stored_end(store, 1), stored_end(store, 2)
    records = [record for record in store.prunable(NOTHING_STORED) if record.task.id == gone.id]

    def check(went):
        expect(went, set())
        expect([task.id for task in store.query(TaskQuery(limit=9))], [kept.id])

    return lambda: store.prune(records), check


@case
def prune_traces(store, address):
    for number in range(3):
        store.claim_firing("a", None, START + timedelta(days=number), node=NODE, event_id=str(number))

    def check(count):
        expect(count, 0)
        expect(store.claim_firing("a", None, START + timedelta(days=2), node=NODE, event_id="again"), False)

    return lambda: store.prune_traces(NOTHING_STORED), check


@case
def upkeep(store, address):
    month = Month.of(datetime.now(UTC)).next.table
    store.nodes()  # the tables are there
    execute(address, f"DROP TABLE {month}")

    def check(_):
        with psycopg.connect(address) as connection:
            expect(connection.execute("SELECT to_regclass(%s)::text", (month,)).fetchone(), (month,))

    return store.upkeep, check


# --- leases ----------------------------------------------------------------------------------------------------


@case
def renew(store, address):
    run = stored_run(store)
    execute(address, "UPDATE leases SET until = until - interval '20 s'")
    before = datetime.now(UTC)

    def check(missing):
        expect(missing, set())
        (lease,) = store.leases()
        assert lease.until > before + TTL / 2

    return lambda: store.renew(TERM, [run.id], TTL), check


@case
def touch(store, address):
    run = stored_run(store)
    beat = Beat(run.id, START)
    return lambda: store.touch(TERM, [beat]), lambda _: expect(read(store, run).last_heartbeat_at, START)


@case
def adopt(store, address):
    run = stored_run(store)

    def check(adopted):
        expect([(task.id, task.version) for task in adopted], [(run.id, run.version + 1)])
        expect([lease.term for lease in store.leases()], [LATER_TERM])
        expect([note.kind for note in store.notes(run.id)], ["adopted"])

    return lambda: store.adopt(TERM, LATER_TERM, [run.id], TTL, "event"), check


@case
def expire(store, address):
    run = stored_run(store)
    execute(address, "UPDATE leases SET until = clock_timestamp() - interval '1 s'")

    def check(lost):
        expect([(task.id, task.status) for task in lost], [(run.id, Status.LOST)])
        expect(len(store.history(run.id)), 3)

    return lambda: store.expire([run.id], "event", actor="judge"), check


# --- commands --------------------------------------------------------------------------------------------------


@case
def submit_command(store, address):
    run = stored_run(store)
    return lambda: store.submit_command(request(1, run)), lambda _: expect(len(store.commands(run.id)), 1)


@case
def claim_commands(store, address):
    """The lost claim counts: it is taken when its lease is over, and not before."""
    run = stored_run(store)
    store.submit_command(request(1, run))

    def check(found):
        expect(found, [])
        execute(address, "UPDATE commands SET claimed_until = clock_timestamp() - interval '1 s'")
        expect([command.id for command in store.claim_commands(NODE, LATER_TERM, lease=TTL)], ["command-1"])

    return lambda: store.claim_commands(NODE, TERM, lease=TTL), check


@case
def complete_command(store, address):
    run = stored_run(store)
    store.submit_command(request(1, run))
    return lambda: store.complete_command("command-1", "done"), lambda _: expect(
        [command.outcome for command in store.commands(run.id)], ["done"]
    )


@case
def release_command(store, address):
    run = stored_run(store)
    store.submit_command(request(1, run))
    store.claim_commands(NODE, TERM, lease=TTL)
    return lambda: store.release_command("command-1", TERM), lambda _: expect(
        [command.id for command in store.claim_commands(NODE, TERM, lease=TTL)], ["command-1"]
    )


# --- schedules, nodes, deployment ------------------------------------------------------------------------------


@case
def claim_firing(store, address):
    def check(is_ours):
        expect(is_ours, True)
        expect(store.claim_firing("a", None, START, node="other", event_id="2"), False)

    return lambda: store.claim_firing("a", None, START, node=NODE, event_id="1"), check


@case
def claim_firings(store, address):
    claims = [FiringClaim("a", key, START, f"1{key}") for key in ("k", None)]
    return lambda: store.claim_firings(claims, node=NODE), lambda ours: expect(ours, [True, True])


@case
def register_term(store, address):
    def check(_):
        expect([term.term for term in store.terms(NODE)], [TERM])
        expect([(node.node, node.term) for node in store.nodes()], [(NODE, TERM)])

    return lambda: store.register_term(term_record(), node_record()), check


@case
def end_term(store, address):
    store.register_term(term_record(), node_record())
    return lambda: store.end_term(TERM), lambda _: expect([node.is_live for node in store.nodes()], [False])


@case
def declare_buckets(store, address):
    store.declare_buckets(NODE, frozenset({1, 2}))
    return lambda: store.declare_buckets(NODE, frozenset({2, 3})), lambda _: expect(
        [claim.bucket for claim in store.declarations()], [2, 3]
    )


@case
def publish_catalogue(store, address):
    entry = CatalogueEntry(node=NODE, name="a", module="m")
    return lambda: store.publish_catalogue(NODE, [entry]), lambda _: expect(store.catalogue(), [entry])


@case
def record_num_buckets(store, address):
    def check(deployment):
        expect(deployment.num_buckets, 8)
        expect(store.record_num_buckets(16).num_buckets, 8)

    return lambda: store.record_num_buckets(8), check


@case
def rebucket(store, address):
    store.record_num_buckets(64)
    task = stored_queued(store, bucket_key="acme", bucket=0)

    def check(done):
        expect((done.before, done.after, done.waiting, done.moved), (64, 96, 1, 1))
        expect(len(store.rebucketings()), 1)
        expect([note.kind for note in store.notes(task.id)], ["rebucketed"])

    return lambda: store.rebucket(96, "rebucket.1", actor="olga"), check


# --- holds, and nodes that are gone ----------------------------------------------------------------------------


@case
def place_hold(store, address):
    hold = SharedHold(scope=HoldScope.BUCKET, target="7", by="olga")

    def check(revision):
        expect((store.holds().revision, [held.target for held in store.holds().holds]), (revision, ["7"]))

    return lambda: store.place_hold(hold), check


@case
def lift_hold(store, address):
    store.place_hold(SharedHold(scope=HoldScope.BUCKET, target="7", by="olga"))
    return lambda: store.lift_hold(HoldScope.BUCKET, "7"), lambda revision: expect(
        (store.holds().revision, store.holds().holds), (revision, ())
    )


@case
def acknowledge_holds(store, address):
    store.register_term(term_record(), node_record())

    def check(is_current):
        expect((is_current, [node.holds_seen for node in store.nodes()]), (True, [5]))

    return lambda: store.acknowledge_holds(TERM, 5), check


@case
def forget_node(store, address):
    store.register_term(term_record(), node_record(ttl=timedelta(0)))
    task = stored_queued(store)

    def forget():
        return store.forget_node(NODE, "event", actor="olga", reason="burnt")

    def check(left):
        expect(left, 0)
        expect([step.target for step in store.history(task.id)], [Status.QUEUED, Status.LOST])
        expect(store.nodes(), [])
        with pytest.raises(Refused, match="no node is called"):
            forget()

    return forget, check


# --- the deployment as a whole ---------------------------------------------------------------------------------


@case
def report_clock(store, address):
    store.register_term(term_record(), node_record())
    return lambda: store.report_clock(TERM, TTL), lambda _: expect([node.clock_ahead for node in store.nodes()], [TTL])


@case
def report_findings(store, address):
    """Its changes are told to the second caller, who is the same one: no alert goes untold."""

    def check(changes):
        expect([alert.kind for alert in changes.raised], ["duplicate"])
        expect(len(store.alerts()), 1)

    found = [Finding("duplicate", "buckets 1-3", "declared by one and two")]
    return lambda: store.report_findings(found, quiet=TTL, event_id="1"), check


@case
def acknowledge_alert(store, address):
    found = Finding("duplicate", "buckets 1-3", "declared by one and two")
    (alert,) = store.report_findings([found], quiet=TTL, event_id="1").raised
    return lambda: store.acknowledge_alert(alert.id, "olga"), lambda taken: expect(taken.acknowledged_by, "olga")


# --- that there is one for each --------------------------------------------------------------------------------

LOOKS: dict[str, Callable[[TaskStore], Any]] = {
    "get": lambda store: store.get(task_id(1)),
    "find": lambda store: store.find("0"),
    "query": lambda store: store.query(TaskQuery()),
    "history": lambda store: store.history(task_id(1)),
    "resolutions": lambda store: store.resolutions([task_id(1)]),
    "notes": lambda store: store.notes(task_id(1)),
    "stats": lambda store: store.stats(),
    "bucket_loads": lambda store: store.bucket_loads(),
    "prunable": lambda store: store.prunable(TTL),
    "count_prunable": lambda store: store.count_prunable(TTL),
    "leases": lambda store: store.leases(),
    "commands": lambda store: store.commands(task_id(1)),
    "last_firings": lambda store: store.last_firings([("a", "k")]),
    "terms": lambda store: store.terms(NODE),
    "nodes": lambda store: store.nodes(),
    "declarations": lambda store: store.declarations(),
    "catalogue": lambda store: store.catalogue(),
    "deployment": lambda store: store.deployment(),
    "holds": lambda store: store.holds(),
    "changed_holds": lambda store: store.changed_holds(None),
    "rebucketings": lambda store: store.rebucketings(),
    "survey": lambda store: store.survey(still=TTL),
    "alerts": lambda store: store.alerts(),
}
"""The methods that write nothing, which is tried."""

OTHERS = {
    "save": "save_many with one",
    "bell": "it listens",
    "check_serving": "it refuses a server that cannot be written to, see there",
    "close": "it asks the server for nothing",
}


@pytest.fixture
def proxy(database: str) -> Iterator[LossyProxy]:
    parts = conninfo.conninfo_to_dict(database)
    with lossy(str(parts["host"]), int(parts.get("port") or 5432)) as proxy:
        yield proxy


@pytest.fixture
def store(database: str, proxy: LossyProxy) -> Iterator[PostgresTaskStore]:
    parts = conninfo.conninfo_to_dict(database) | {"host": "127.0.0.1", "port": proxy.port, "sslmode": "disable"}
    with PostgresTaskStore(url_of(parts), deadline=20) as store:
        yield store


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_write_whose_answer_was_lost_is_written_again(store, database, proxy, name):
    """And is there once, with the answer that the first one would have had or one that says the same."""
    write, check = CASES[name](store, database)
    proxy.lose_next_commit()
    with pytest.raises(StoreUnavailable):
        write()
    assert proxy.lost == 1
    check(write())


def test_every_writing_method_of_the_contract_has_its_case():
    """A new one has to be put into one of the tables; what is called a look there cannot be a write."""
    methods = {name for name, member in vars(TaskStore).items() if callable(member) and not name.startswith("_")}
    assert methods == {*CASES, *LOOKS, *OTHERS}
    assert len(CASES) + len(LOOKS) + len(OTHERS) == len(methods)


@pytest.mark.parametrize("name", sorted(LOOKS))
def test_a_look_writes_nothing(database, name):
    """It works where nothing can be written."""
    parts = conninfo.conninfo_to_dict(database) | {"options": "-c default_transaction_read_only=on"}
    with PostgresTaskStore(url_of(parts)) as store:
        LOOKS[name](store)


def test_a_final_save_that_was_lost_is_no_conflict_after_another_one(store, proxy):
    """The same task, the next attempt of it: each answer is lost, each write is there once."""
    task = stored_queued(store)
    for status in (Status.STARTING, Status.RUNNING, Status.SUCCEEDED):
        new = start_of(task) if status is Status.STARTING else moved(task, status)
        lease = LeaseGrant(TERM, TTL) if status is Status.STARTING else None
        proxy.lose_next_commit()
        with pytest.raises(StoreUnavailable):
            put(store, task, new, lease=lease)
        task = put(store, task, new, lease=lease)
    assert proxy.lost == 3
    assert [step.version for step in store.history(task.id)] == [1, 2, 3, 4]
