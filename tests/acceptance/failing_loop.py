"""`chong-supervisor` whose main loop fails once a certain file exists: run as a script.

Its arguments are the file, and the whole command that it takes the place of.
"""

import runpy
import sys
from pathlib import Path

from chong.supervisor.node import Node

trigger, module = Path(sys.argv[1]), sys.argv.index("-m") + 1
turn = Node.turn


def failing(self: Node) -> None:
    if trigger.exists():
        raise RuntimeError("an error of chong")
    turn(self)


Node.turn = failing
sys.argv = sys.argv[module:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
