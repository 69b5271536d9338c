"""Children that nobody here started: what a dead forkserver left comes to us, its subreaper."""

import os
from collections.abc import Callable, Collection
from pathlib import Path


def reap_adopted(known: Callable[[], Collection[int]]) -> bool:
    """Reap the dead among them, but for those whose status is still to be read; whether any are left that live.

    `known` is asked behind the look at the children: what another thread starts in between is not among them yet.
    Everything below a forkserver has left our session; what this process itself has started, if it is not only a
    supervisor, is somebody else's to reap.
    """
    session = os.getsid(0)
    try:
        children = _children()
    except OSError:
        return True  # there is no descriptor to look with: there is a next time
    lives = False
    for pid in children.difference(known()):
        state = _state_in_another_session(pid, session)
        if state == "Z":
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue
        lives = lives or state not in {None, "Z"}
    return lives


def _children() -> set[int]:
    found: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        try:
            found.update(map(int, (thread / "children").read_text().split()))
        except OSError:
            continue  # the thread has just ended, or there is no descriptor left
    return found


def _state_in_another_session(pid: int, session: int) -> str | None:
    try:
        words = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return words[0] if int(words[3]) != session else None
