"""Children that nobody here started: what a dead forkserver left comes to us, its subreaper."""

import os
from collections.abc import Collection
from pathlib import Path


def reap_adopted(known: Collection[int]) -> None:
    """Reap the dead among them, but for those whose status is still to be read.

    Everything below a forkserver has left our session; what this process itself has started, if it is not only a
    supervisor, is somebody else's to reap.
    """
    session = os.getsid(0)
    for pid in _children().difference(known):
        if _is_zombie_of_another_session(pid, session):
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue


def _children() -> set[int]:
    found: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        try:
            found.update(map(int, (thread / "children").read_text().split()))
        except OSError:
            continue  # the thread has just ended, or there is no descriptor to look with: there is a next time
    return found


def _is_zombie_of_another_session(pid: int, session: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return False
    return words[0] == "Z" and int(words[3]) != session
