"""How long the end of a supervisor may take, so that nobody's time-out cuts it short."""

import os
import signal
import sqlite3
import time

from node_bench import Supervised, wait_until

GRACES = 2 + 1
HALF_A_MINUTE = 30


def test_an_end_takes_half_a_minute_beyond_its_graces_at_most(place: Supervised):
    """No end is told, no write is stored, and the forkserver has to be found stuck: one time is for all of it."""
    database = place.elsewhere()
    node = place.start("--db", str(database), lease=30)
    node.begun("hold", seconds=90)
    os.kill(node.forkserver(), signal.SIGSTOP)
    lock = sqlite3.connect(database, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    assert node.terminate(limit=3 * HALF_A_MINUTE) == 0
    assert time.monotonic() - began < GRACES + HALF_A_MINUTE
    assert len(node.events("unsent")) == 1
    lock.close()
    wait_until(lambda: node.processes() == {}, "the end of everything")
