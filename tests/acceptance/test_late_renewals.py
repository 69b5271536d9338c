"""A renewal of leases that somebody's lock holds up, with a real supervisor on PostgreSQL."""

import re

import psycopg
from node_bench import Enter, S, Supervised, wait_until


def test_a_renewal_that_waits_for_a_lock_is_told_while_it_waits(fleet: Enter, outside: Supervised):
    """It has not failed, and nothing else is away; when the lock is gone the log says so, and for how long it was."""
    node = fleet("--node", "one", "--renew-seconds", "0.3", lease=30)
    task_id = node.begun("until", path=str(node.root / "open"))
    with psycopg.connect(str(outside.address)) as connection:
        connection.execute("SELECT 1 FROM leases FOR UPDATE")
        connection.execute("SELECT 1 FROM renewals FOR UPDATE")
        told = wait_until(lambda: node.events("renewal_failed"), "a word on the late renewal")
        assert re.fullmatch(r"a renewal has had no answer for [\d.]+ s", told[0]["error"])
        assert node.events("renewal_back") == node.events("store_away") == []
    [back] = wait_until(lambda: node.events("renewal_back"), "the renewal")
    assert back["seconds"] >= 0.3
    (node.root / "open").touch()
    assert node.end_of(task_id).status is S.SUCCEEDED
