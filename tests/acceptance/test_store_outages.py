"""A PostgreSQL store that is lost, frozen or replaced under running nodes, and nodes that die while speaking to it."""

import signal
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from node_bench import S, Supervised, wait_until
from pg_server import Server, Standby, both, suspended

from chong.store.errors import ChongError

LEASE = 30
KILLER = Path(__file__).with_name("killed_in_store.py")


def check_ends(node: Supervised, ids: list[str]) -> None:
    """Each has succeeded, and has run once: nothing was lost, and nothing doubled."""
    node.wait_for_store()
    assert {task.status for task in node.ends_of(ids)} == {S.SUCCEEDED}
    begun = Counter(entry["id"] for entry in node.journal("begin"))
    assert {task_id: begun[task_id] for task_id in ids} == dict.fromkeys(ids, 1)
    assert set(begun.values()) == {1}
    for task_id in ids:
        trail = node.store.history(task_id)
        assert [step.source for step in trail] == [None, *(step.target for step in trail[:-1])]
        assert len({step.event_id for step in trail}) == len(trail)


def begin_until(node: Supervised) -> str:
    return node.begun("until", path=str(node.root / "open"))


def release(node: Supervised) -> None:
    (node.root / "open").touch()


def test_a_promoted_standby_takes_the_stores_place(outside: Supervised, server: Server):
    """The old one is gone for good; what ran goes on, what waited runs, and each once."""
    with Standby(server) as standby:
        server.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()")
        outside.share(both(server, standby))
        node = outside.start(lease=LEASE)
        ids = [begin_until(node), *(node.submit("noop") for _ in range(10))]
        server.stop(signal.SIGQUIT)
        ids += [node.submit("noop") for _ in range(10)]
        wait_until(lambda: node.events("store_away"), "the outage")
        standby.promote()
        wait_until(lambda: node.events("store_back"), "the other one")
        release(node)
        check_ends(node, ids)
        assert node.terminate() == 0


def test_a_supervisor_starts_beside_a_standby_and_waits_for_its_promotion(outside: Supervised, server: Server):
    """A read-only server is none to end because of."""
    with Standby(server) as standby:
        outside.share(server.address)
        outside.wait_for_store()  # its tables
        outside.environment["CHONG_DB"] = both(server, standby)
        server.stop(signal.SIGQUIT)
        node = outside.start(wait=False, lease=LEASE)
        wait_until(lambda: node.events("waiting_for_store"), "its word that it waits")
        standby.promote()
        wait_until(lambda: node.events("accepting"), "a node that takes work")
        outside.store.close()
        outside.address = both(server, standby)
        del outside.store
        check_ends(node, [node.submit("noop")])
        assert node.terminate() == 0


def test_terminated_connections_cost_no_run_and_no_lease(outside: Supervised, server: Server):
    """All of them, again and again, under a stream of tasks; renewals are on time throughout."""
    outside.share(server.address)
    node = outside.start(lease=6)
    ids = [begin_until(node)]
    for _ in range(12):
        ids += [node.submit("noop") for _ in range(3)]
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'chong'")
        node.wait_for_store()
        (lease,) = node.store.leases(ids[:1])
        assert not lease.is_past
    before = node.store.leases(ids[:1])[0].renewals
    wait_until(lambda: node.store.leases(ids[:1])[0].renewals > before, "a renewal")
    release(node)
    check_ends(node, ids)
    assert node.terminate() == 0


def test_a_frozen_server_stops_no_node(outside: Supervised, server: Server):
    """No connection answers, no new one is made: runs end, submissions and holds are answered all the same."""
    outside.share(server.address)
    node = outside.start(lease=LEASE)
    running = begin_until(node)
    with suspended(server.pids()):
        waiting = node.submit("noop")
        assert node.cli("hold", "noop").code == 0
        wait_until(lambda: node.events("store_away"), "the outage")
        assert node.cli("unhold", "noop").code == 0
        release(node)
        wait_until(lambda: node.journal("end"), "the end of the run")
        assert len(node.journal("begin")) == 1
    check_ends(node, [running, waiting])
    assert node.terminate() == 0


def test_frozen_connections_are_replaced(outside: Supervised, server: Server):
    """While they stay frozen: each call gives its own up after its deadline, and the next one has another."""
    outside.share(server.address)
    node = outside.start(lease=LEASE)
    running = begin_until(node)
    renewals = node.store.leases([running])[0].renewals
    connections = server.pids_of("chong")
    assert connections
    with suspended(connections):
        waiting = node.submit("noop")
        node.wait_for_store()
        node.end_of(waiting)
        wait_until(lambda: node.store.leases([running])[0].renewals > renewals, "a renewal")
        assert set(connections) <= set(server.pids())
    release(node)
    check_ends(node, [running, waiting])
    assert node.terminate() == 0


ROUNDS = (
    ("save_many", 1),
    ("save_many", 2),
    ("save_many", 6),
    ("register_term", 1),
    ("declare_buckets", 1),
    ("adopt", 1),
    ("renew", 1),
    ("claim_commands", 2),
    ("touch", 1),
)


@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_a_death_in_a_call_loses_and_doubles_nothing(outside: Supervised, server: Server, moment: str):
    """Term after term is killed in another call; the runs that were under way are taken over by the next one."""
    outside.share(server.address)
    few = ("--max-parallel", "3")
    node = outside.start(*few, lease=LEASE)
    accepted = [begin_until(node), *(node.submit("span", seconds=0.3) for _ in range(40))]
    node.kill()
    for method, number in ROUNDS:
        node.start(*few, lease=LEASE, wait=False, within=(sys.executable, str(KILLER), method, str(number), moment))

        def dies() -> bool:
            with suppress(ChongError, OSError):
                accepted.append(node.submit("noop"))
            return node.supervisor.poll() is not None

        wait_until(dies, f"its death in {method}")
        assert node.supervisor.returncode == -signal.SIGKILL
    node.start(*few, lease=LEASE)
    release(node)
    check_ends(node, accepted)
    assert node.terminate() == 0


def test_a_password_on_the_command_line_is_seen_by_nobody_for_long(place: Supervised):
    """The title takes its place, also while the store is waited for; nothing that is started has it either."""
    node = place.start("--db", "postgresql://u:s3cret@127.0.0.1:1/x", wait=False)
    wait_until(lambda: node.events("waiting_for_store") and node.events("generation_ready"), "a node that waits")
    seen = [Path(f"/proc/{pid}/{part}").read_bytes() for pid in node.processes() for part in ("cmdline", "environ")]
    assert len(seen) >= 4
    assert not any(b"s3cret" in each for each in seen)
    assert "s3cret" not in node.log()
    assert node.terminate() == 0
