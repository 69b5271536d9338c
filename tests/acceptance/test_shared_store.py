"""Several nodes on one PostgreSQL: each runs its own, and all are seen and controlled from anywhere."""

import os
import re
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from node_bench import Enter, S, Supervised, key_of, wait_until
from pg_server import Databases, Server, url_of
from psycopg import conninfo

from chong.store.buckets import BucketPolicy
from chong.store.postgres_address import label_of, parsed
from chong.store.query import TaskQuery
from chong.store.schema import SCHEMA_VERSION

OPERATING = Path(__file__).parents[2] / "docs" / "operating.md"


def named(node: str, buckets: str) -> tuple[str, ...]:
    return ("--node", node, "--num-buckets", "64", "--owned-buckets", buckets)


def test_what_runs_anywhere_is_seen_and_controlled_from_anywhere(fleet: Enter, outside: Supervised):
    """By a command line that belongs to no node; each moment of the stop is later than the one before."""
    one, two = fleet(*named("one", "0-31")), fleet(*named("two", "32-63"))
    first, second = one.begun("hold", key=key_of(0, 31)), two.begun("hold", key=key_of(32, 63))
    assert {row["id"]: row["node"] for row in outside.cli("ps", "--json").json} == {first: "one", second: "two"}
    assert outside.cli("pause", second, "--wait").code == 0
    assert outside.task(second).status is S.PAUSED
    assert outside.cli("resume", second, "--wait").code == 0
    assert outside.cli("stop", first, second, "--wait", "--as", "olga").code == 0
    for task in map(outside.task, (first, second)):
        stop = task.stop
        assert (task.status, stop.by) == (S.STOPPED, "olga")
        moments = [stop.asked_at, stop.delivered_at, stop.acknowledged_at, stop.effective_at]
        assert all(earlier <= later for earlier, later in pairwise(moments)), moments


def test_a_command_rings_at_its_node(fleet: Enter, outside: Supervised):
    """The node would look for commands once in a minute; the bell wakes it."""
    node = fleet("--node", "one", "--poll-seconds", "60")
    task_id = node.begun("hold")
    asked = time.monotonic()
    assert outside.cli("stop", task_id, "--wait").code == 0
    assert time.monotonic() - asked < 30


def test_a_submission_outside_its_buckets_is_refused_and_says_which_are_its_own(fleet: Enter):
    """It is never handed on: nobody runs somebody else's task."""
    one, two = fleet(*named("one", "0-31")), fleet(*named("two", "32-63"))
    key = key_of(32, 63)
    answer = one.cli("--node", "one", "submit", "noop", "--key", key)
    bucket = BucketPolicy(64).bucket_of(key)
    said = f"chong: key {key!r} falls into bucket {bucket}: expected one of node 'one', 0-31\n"
    assert (answer.code, answer.out, answer.err) == (1, "", said)
    assert two.store.query(TaskQuery()) == []


def test_a_supervisor_that_is_killed_is_followed_by_the_next_term(fleet: Enter):
    """The run goes on over the shared store as over a file."""
    node = fleet("--node", "one", lease=12)
    task_id = node.begun("until", path=str(node.root / "open"))
    worker = node.worker_of(task_id)
    node.kill()
    node.start("--node", "one", lease=12)
    wait_until(lambda: node.task(task_id).lease_owner == node.store.terms("one")[0].term, "the takeover")
    (node.root / "open").touch()
    assert node.end_of(task_id).status is S.SUCCEEDED
    assert len(node.journal("begin")) == 1
    assert worker not in node.workers()


def test_a_firing_runs_once_though_two_nodes_own_its_bucket(fleet: Enter):
    """Both have the schedule; the store lets one of them claim each instant."""
    nodes = [fleet("--node", name, "--tasks", "node_schedules") for name in ("one", "two")]
    wait_until(lambda: sum(len(node.journal("begin")) for node in nodes) >= 12, "a dozen firings")
    for node in nodes:
        assert node.terminate() == 0
    # The id of a scheduled task begins with its planned instant.
    tasks = [task for task in nodes[0].store.query(TaskQuery(limit=1000)) if task.trigger == "schedule"]
    instants = [(task.name, task.bucket_key, task.id[:13]) for task in tasks]
    assert len(instants) == len(set(instants)) >= 12
    assert {task.node for task in tasks} == {"one", "two"}


def test_a_restart_of_the_store_costs_no_run(outside: Supervised, server: Server):
    """Tasks run on while it is away, and what they came to is stored when it is back."""
    outside.share(server.address)
    node = outside.start("--node", "one")
    running = node.begun("until", path=str(node.root / "open"))
    server.stop(signal.SIGQUIT)
    wait_until(lambda: node.events("store_away"), "the outage")
    (node.root / "open").touch()
    wait_until(lambda: node.journal("end"), "the end of the run")
    server.start()
    node.wait_for_store()
    assert node.end_of(running).status is S.SUCCEEDED
    assert node.end_of(node.submit("noop")).status is S.SUCCEEDED
    assert node.terminate() == 0


def test_work_that_is_waited_for_is_accepted_while_the_store_is_away(outside: Supervised, server: Server):
    """As without `--wait`; the command says that it was, and which task it is, before it gives up."""
    outside.share(server.address)
    node = outside.start("--node", "one")
    wait_until(lambda: node.events("accepting"), "a node that takes work")
    server.stop()
    answer = node.cli("--node", "one", "submit", "noop", "--wait")
    task_id = answer.out.strip()
    assert answer.code == 3, answer.err
    assert f"chong: task {task_id} was accepted; how it ends the store knows, which is out of reach\n" in answer.err
    server.start()
    node.wait_for_store()
    assert node.end_of(task_id).status is S.SUCCEEDED


def test_a_supervisor_waits_for_a_store_that_is_away_at_its_start(outside: Supervised, server: Server):
    """It takes work as soon as the store is there."""
    outside.share(server.address)
    server.stop()
    node = outside.start("--node", "one", wait=False)
    wait_until(lambda: node.events("waiting_for_store"), "its word that it waits")
    server.start()
    wait_until(lambda: node.events("accepting"), "a node that takes work")
    assert node.end_of(node.submit("noop")).status is S.SUCCEEDED
    assert node.terminate() == 0


def test_a_wrong_database_ends_a_supervisor_with_one_line(outside: Supervised, database: str):
    """Waiting cures nothing; exit 2, and systemd does not start it again."""
    outside.environment["CHONG_DB"] = database.replace("chong_test", "no_such")
    answer = outside.refuse("--state-dir", str(outside.state))
    assert answer.code == 2
    assert "does not exist" in answer.err
    assert answer.err.count("\n") == 1


def test_migrate_makes_the_tables_and_records_the_number_of_buckets(outside: Supervised, databases: Databases):
    """Before it every command says that it is missing; a second time it changes nothing."""
    name = databases.new("template1")
    try:
        outside.share(databases.of(name))
        missing = outside.cli("ps")
        assert (missing.code, missing.err.count("\n")) == (2, 1)
        assert "run `chong migrate`" in missing.err
        checked = outside.refuse("--state-dir", str(outside.state), "--check")
        assert (checked.code, "store to be made" in checked.out) == (0, True), checked.err
        for _ in range(2):
            made = outside.cli("--num-buckets", "32", "migrate")
            assert (made.code, made.out.partition(": ")[2]) == (0, f"schema {SCHEMA_VERSION}, 32 buckets\n"), made.err
            assert made.out.startswith(f"store {label_of(parsed(databases.of(name)))}: ")
        other = outside.cli("--num-buckets", "64", "migrate")
        assert (other.code, "expected 32" in other.err) == (2, True)
        assert outside.cli("ps").code == 0
    finally:
        outside.store.close()
        databases.drop(name)


@pytest.fixture
def observed(outside: Supervised, databases: Databases) -> Iterator[Supervised]:
    """`outside`, with a role that has the rights which the operating guide gives to an observer, and a password."""
    database = str(conninfo.conninfo_to_dict(str(outside.address))["dbname"])
    role = f"observer_{database}"
    grants = re.findall(r"```sql\n(.*?)```", OPERATING.read_text(), re.DOTALL)[0].replace("observer", role)
    databases.execute(*filter(str.strip, grants.split(";")), database=database)
    said = conninfo.conninfo_to_dict(str(outside.address)) | {"user": role, "password": "s3cret"}
    try:
        outside.environment["CHONG_DB"] = url_of(said)
        yield outside
    finally:
        databases.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}", database=database)


def test_the_role_that_made_the_tables_may_give_an_observer_its_rights(outside: Supervised, databases: Databases):
    """It may make no role, so the guide leaves that to the superuser."""
    name = databases.new("template1")
    owner, observer = f"owner_{name}", f"observer_{name}"
    guide = re.findall(r"```sql\n(.*?)```", OPERATING.read_text(), re.DOTALL)[0].replace("observer", observer)
    create, *grants = filter(str.strip, guide.split(";"))
    assert "PASSWORD" in create
    databases.execute(f"CREATE ROLE {owner} LOGIN PASSWORD 's3cret'", f"ALTER DATABASE {name} OWNER TO {owner}")
    said = conninfo.conninfo_to_dict(databases.of(name)) | {"user": owner, "password": "s3cret"}
    try:
        databases.execute(create)
        outside.environment["CHONG_DB"] = url_of(said)
        assert outside.cli("--num-buckets", "64", "migrate").code == 0
        with psycopg.connect(url_of(said), autocommit=True) as owning:
            for grant in grants:
                owning.execute(grant)
        outside.environment["CHONG_DB"] = url_of(said | {"user": observer, "password": "another secret"})
        looked = outside.cli("buckets")
        assert (looked.code, looked.err) == (0, "")
    finally:
        databases.drop(name)
        databases.execute(f"DROP ROLE IF EXISTS {observer}", f"DROP ROLE {owner}")


def test_an_observer_reads_everything(fleet: Enter, observed: Supervised):
    """Also what later versions add, by the rights that the operating guide gives."""
    node = fleet("--node", "one")
    task_id = node.begun("hold")
    looks = ["ps", "stats", "buckets", "nodes", "tasks", "alerts", "migrate", "rebucket"]
    looks += [f"show {task_id}", f"history {task_id}", "reconcile --dry-run", "prune --older-than 1d --dry-run"]
    for words in looks:
        answer = observed.cli(*words.split())
        assert (answer.code, answer.err) == (0, ""), words
        assert answer.out
    found = observed.cli("doctor")
    assert (found.code, found.err) == ((0, "") if "nothing found" in found.out else (1, ""))
    with psycopg.connect(str(observed.address), autocommit=True) as later:
        later.execute("CREATE TABLE later (name text)")
    with psycopg.connect(observed.environment["CHONG_DB"]) as looking:
        assert looking.execute("SELECT * FROM later").fetchall() == []


def test_a_check_refuses_a_role_that_may_not_make_the_tables(outside: Supervised, databases: Databases):
    """As the start would; and it has made nothing."""
    name = databases.new("template1")
    role = f"poor_{name}"
    databases.execute(f"REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE ROLE {role} LOGIN", database=name)
    try:
        outside.environment["CHONG_DB"] = url_of(conninfo.conninfo_to_dict(databases.of(name)) | {"user": role})
        for more in (("--check",), ()):
            answer = outside.refuse("--state-dir", str(outside.state), "--node", "one", *more)
            assert answer.code == 2, (more, answer)
            assert "with a role that may create tables" in answer.err.splitlines()[-1]
        for command in ("ps", "migrate"):  # refused alike, as for any right that is missing
            told = outside.cli(command)
            assert (told.code, told.out, told.err.count("\n")) == (1, "", 1), told
            assert "with a role that may create tables" in told.err
    finally:
        databases.drop(name)
        databases.execute(f"DROP ROLE {role}")


def test_a_supervisor_whose_role_may_only_read_ends_at_once(observed: Supervised):
    """To wait for a right would be to wait for somebody who does not know of it."""
    answer = observed.refuse("--state-dir", str(observed.state), "--node", "two")
    assert answer.code == 2
    assert "permission denied for table" in answer.err.splitlines()[-1]
    assert "s3cret" not in answer.err


def test_a_check_refuses_a_role_that_may_only_read(observed: Supervised, databases: Databases):
    """In one line with the rights and tables; also when one table alone is closed, and nothing was made."""
    words = ("--state-dir", str(observed.state), "--node", "two", "--check")
    answer = observed.refuse(*words)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1), answer
    assert "expected a role with SELECT, INSERT, UPDATE and DELETE on chong's tables" in answer.err
    assert "s3cret" not in answer.err
    said = conninfo.conninfo_to_dict(observed.environment["CHONG_DB"])
    give = f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {said['user']}"
    databases.execute(give, database=str(said["dbname"]))
    assert observed.refuse(*words).code == 0
    databases.execute(f"REVOKE DELETE ON leases FROM {said['user']}", database=str(said["dbname"]))
    closed = observed.refuse(*words)
    assert (closed.code, closed.err.count("\n")) == (2, 1)
    assert closed.err.endswith("got one without that on leases\n")


@pytest.mark.parametrize(("template", "look"), [(None, 0), ("template1", 2)], ids=["with tables", "without"])
def test_a_check_refuses_a_server_that_is_read_only(
    outside: Supervised, databases: Databases, template: str | None, look: int
):
    """A supervisor would wait until it is promoted, which may be never; who only looks may."""
    name = databases.new(template)
    try:
        databases.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        outside.environment["CHONG_DB"] = databases.of(name)
        answer = outside.refuse("--state-dir", str(outside.state), "--node", "two", "--check")
        assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1), answer
        assert "read-only server, such as a standby" in answer.err
        assert outside.cli("ps").code == look
    finally:
        databases.drop(name)


def test_work_that_a_node_does_not_take_is_refused_and_not_wrong_usage(fleet: Enter):
    """A key of another node's bucket, none at all, and a name that it does not know, alike; what can be no name is."""
    node = fleet("--node", "one", "--owned-buckets", "0-31")
    asked = {"noop --key initech": 1, "noop": 1, "nop --key acme": 1, "until --key acme": 1, "a\nb --key acme": 2}
    for words, code in asked.items():
        answer = node.cli("submit", *words.split(" "))
        assert (answer.code, answer.out, answer.err.count("\n")) == (code, "", 1), words


@pytest.mark.parametrize("closed", ["deployment", "tasks"])
def test_what_a_reader_may_not_see_is_one_line(observed: Supervised, databases: Databases, closed: str):
    """It names the one right that a look needs, whichever table it is; a supervisor ends as wrongly set up."""
    said = conninfo.conninfo_to_dict(observed.environment["CHONG_DB"])
    databases.execute(f"REVOKE SELECT ON {closed} FROM {said['user']}", database=str(said["dbname"]))
    told = observed.cli("ps")
    assert (told.code, told.out, told.err.count("\n")) == (1, "", 1)
    expected = f"permission denied for table {closed}; expected a role with SELECT on chong's tables"
    assert expected in told.err
    assert observed.refuse("--state-dir", str(observed.state), "--node", "two").code == 2
    if closed == "deployment":
        checked = observed.refuse("--state-dir", str(observed.state), "--node", "two", "--check")
        assert (checked.code, expected in checked.err) == (2, True)


def test_what_an_observer_may_not_do_is_one_line(fleet: Enter, observed: Supervised):
    """It names the right, and never the password; nothing of it has happened."""
    node = fleet("--node", "one")
    task_id = node.begun("hold")
    node.kill()
    os.kill(node.forkserver(), signal.SIGKILL)
    wait_until(lambda: any(lease.is_past for lease in observed.store.leases()), "a lease that is past")
    before = observed.task(task_id)
    asks = (
        f"stop {task_id}",
        f"pause {task_id} --wait",
        "hold --bucket 7",
        "hold --name noop",
        "drain one",
        "forget one --yes",
        "reconcile",
        "rebucket 96 --yes",
    )
    right = r"permission denied for table \w+; expected a role with SELECT, INSERT, UPDATE and DELETE on chong's tables"
    for words in asks:
        answer = observed.cli(*words.split())
        *before_it, refusal = answer.err.splitlines()
        assert (answer.code, answer.out) == (1, ""), words
        assert re.search(right, refusal), words
        assert before_it == [] or (words == "reconcile" and "no answer yet" in before_it[0]), words
        assert "s3cret" not in answer.err
    assert observed.task(task_id) == before
    assert observed.store.holds().holds == ()
    told = observed.cli("submit", "noop")
    assert told.code == 1
    assert told.err.splitlines()[0].endswith("is chong-supervisor running on this machine?")
