"""The demo of a cluster runs as it is shown, and says by its exit code that everything came out as told."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from waiting import is_alive, wait_until

ROOT = Path(__file__).parents[2]
SECONDS = 270
"""It takes half a minute where nothing else runs."""


def of_the_demo(place: str) -> list[int]:
    """The living processes that have a file in it open, as each supervisor, forkserver and server has."""

    def has_open(entry: Path) -> bool:
        try:
            return any(place in str(link.readlink()) for link in (entry / "fd").iterdir())
        except OSError:
            return False

    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and has_open(entry)]


def test_a_demo_that_is_told_to_end_twice_leaves_nothing():
    """A terminal's Ctrl-C and `timeout` come to a whole process group, and so twice to some."""
    with tempfile.TemporaryDirectory(prefix="chong-", dir="/tmp") as place:
        demo = begin(place)
        with demo:
            assert demo.stdout is not None
            wait_until(lambda: "chong nodes" in demo.stdout.readline(), "three nodes", SECONDS)
            demo.terminate()
            wait_until(lambda: not (is_alive(demo.pid) and signal.SIGTERM in caught_by(demo.pid)), "its first answer")
            demo.terminate()
            demo.communicate()
        assert demo.returncode == 128 + signal.SIGTERM
        assert list(Path(place).iterdir()) == []
        wait_until(lambda: not of_the_demo(place), "the end of its processes", 5)


def caught_by(pid: int) -> set[int]:
    """The signals that it has a handler for."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = int(next(line for line in lines if line.startswith("SigCgt")).split()[1], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def begin(place: str) -> subprocess.Popen[str]:
    Path(place).chmod(0o711)
    return subprocess.Popen(
        [sys.executable, "-m", "docs.examples.cluster"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": place},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_demo_of_a_cluster_comes_out_as_told():
    """And leaves neither a process nor a file."""
    with tempfile.TemporaryDirectory(prefix="chong-", dir="/tmp") as place:
        demo = begin(place)
        # It cleans up after a SIGTERM; the limit of all tests would leave its nodes behind.
        end = threading.Timer(SECONDS, demo.terminate)
        end.start()
        with demo:
            said, _ = demo.communicate()
        end.cancel()
        assert demo.returncode == 0, said[-3000:]
        firings, parts = re.search(r"# (\d+) firings since then, .*: (.*)\.", said).groups()
        assert int(firings) == sum(map(int, re.findall(r"(\d+) on", parts)))
        # By doctor: first with the one that ran when its node died, then without it.
        both = list(map(int, re.findall(r"orphan: node south.*?(\d+) tasks without change", said)))
        (queued,) = re.findall(r"(\d+) queued tasks are orphans all the same", said)
        assert both[0] == int(queued) + 1
        assert int(queued) >= 2
        assert said.endswith("Everything is as expected.\n")
        assert list(Path(place).iterdir()) == []
        wait_until(lambda: not of_the_demo(place), "the end of its processes", 5)
