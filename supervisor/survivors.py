"""Processes of former terms that must end and have no other handle, found by a file that only they have open to write.

Workers that outlived supervisor and forkserver, by their log: the leash has ended them, unless a task cast it off.
Forkservers that do not answer, by their lock.
"""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

Identity = tuple[int, int]
"""Device and inode."""


def end_writers(files: Iterable[Path]) -> list[int]:
    """Kill whatever else has one of these files open to write; the processes' ids.

    Who only reads one is a person. A process that has closed its file is not found. It looks at every descriptor of
    every process: half a second where there are thousands, so never in the main loop.
    """
    identities = {identity for file in files if (identity := _identity(file)) is not None}
    return [pid for pid in _others() if _end_if_writing(pid, identities)] if identities else []


def _others() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]  # noqa: PTH208


def _end_if_writing(pid: int, identities: set[Identity]) -> bool:
    try:
        pidfd = os.pidfd_open(pid)  # before the look: so it is the process that was looked at
    except OSError:
        return False
    try:
        writes = any(_writes_to(pid, number) in identities for number in os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208
        if writes:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:
        return False  # it has ended, or is none of ours
    finally:
        os.close(pidfd)
    return writes


def _writes_to(pid: int, number: str) -> Identity | None:
    with suppress(OSError):
        flags = Path(f"/proc/{pid}/fdinfo/{number}").read_text().split("flags:\t", 1)[1].split()[0]
        if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
            return _identity(Path(f"/proc/{pid}/fd/{number}"))
    return None


def _identity(path: Path) -> Identity | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
