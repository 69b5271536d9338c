"""The directory of one `chong run`: gone with it, or, when it was killed, with the next one that starts."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir, mkdtemp

PREFIX = "chong-run-"


@contextmanager
def temporary_place() -> Iterator[Path]:
    """Locked as long as this process lives. A forkserver that outlives it has a lock of its own inside."""
    _clear_left()
    place, lock = _make()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(lock)


def _make() -> tuple[Path, int]:
    while True:
        place = Path(mkdtemp(prefix=PREFIX))
        if (lock := _lock(place, os.O_DIRECTORY)) is not None and place.exists():
            return place, lock
        if lock is not None:  # another one has taken it for left in that instant, and cleared it away
            os.close(lock)


def _clear_left() -> None:
    """Only what is ours, and what nobody holds."""
    for place in Path(gettempdir()).glob(f"{PREFIX}*"):
        if (lock := _lock(place, os.O_DIRECTORY)) is None:
            continue
        try:
            if not any(_is_held(path) for path in place.rglob("*.lock")):
                shutil.rmtree(place, ignore_errors=True)
        finally:
            os.close(lock)


def _is_held(path: Path) -> bool:
    if (lock := _lock(path)) is None:
        return True
    os.close(lock)
    return False


def _lock(path: Path, flags: int = 0) -> int | None:
    """None when somebody holds it, or when it is not there or not ours."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | flags)
    except OSError:
        return None
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
    except BlockingIOError:
        pass  # it is in use
    os.close(lock)
    return None
