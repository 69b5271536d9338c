"""For tests of one's own tasks: an attempt in the test's process, and a whole node in a temporary directory.

As a plugin of pytest, `pytest_plugins = ["chong.worker.testing"]`, it has the fixture `chong_node`.

PYTEST_DONT_REWRITE: a test may have imported this before it is a plugin, which pytest would complain of.
"""

from chong.worker.rehearsal import Rehearsal, run_task
from chong.worker.running_node import NodeNotStarted, RunningNode
from chong.worker.script import EndlessTaskError, Moment

__all__ = ["EndlessTaskError", "Moment", "NodeNotStarted", "Rehearsal", "RunningNode", "run_task"]

pytest_plugins = ["chong.worker.node_fixture"]  # apart, as nothing but pytest needs pytest
