"""The forkservers of a node: one generation for new runs, and older ones until their workers are done."""

import contextlib
import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from chong.supervisor import reports
from chong.supervisor.child import LISTENER, Child
from chong.supervisor.containment import Containment
from chong.supervisor.environment import environment_of_tasks
from chong.supervisor.generation import Generation
from chong.supervisor.paths import Paths
from chong.supervisor.settings import Settings
from chong.worker.settings import ForkserverSettings
from chong.worker.unix import listen
from chong.worker.wire import ProtocolError

ATTACH_SECONDS = 5.0
ATTACH_SHARE = 1 / 3
"""The part of the hold that a forkserver may take for its answer: those that give it have stopped holding by then."""
ATTACH_LEAST = 1.0
IMPORTING_SECONDS = 1.0
"""As long as one is waited for that has not written its list of tasks: it imports them, and has no runs."""


@dataclass(frozen=True, slots=True)
class Found:
    """A former term's forkserver, attached, with its unreleased runs."""

    generation: Generation
    workers: list[reports.Worker]


def attach_all(paths: Paths, hold: float, on_trouble: Callable[[int, str], None]) -> list[Found]:
    """Attach to every forkserver of this node that answers, oldest first; dead ones' sockets are removed.

    All at once, in a part of the `hold` at most: a silent one must not cost the runs of the others. One that holds
    its lock but does not answer, or not sensibly, is reported and left alone: see `SilentForkservers` for its end.
    """
    numbers = _numbers(paths.runtime, "generation-*.sock")
    if not numbers:
        return []
    seconds = max(ATTACH_LEAST, min(ATTACH_SECONDS, hold * ATTACH_SHARE))
    with ThreadPoolExecutor(len(numbers), thread_name_prefix="chong-attach") as pool:
        attached = list(pool.map(partial(_attach, paths, seconds), numbers))
    for number, outcome in zip(numbers, attached, strict=True):
        if isinstance(outcome, str):
            on_trouble(number, outcome)
    return [outcome for outcome in attached if isinstance(outcome, Found)]


def _attach(paths: Paths, seconds: float, number: int) -> Found | str | None:
    """What is wrong with one that does not answer; None of a dead one."""
    deadline = time.monotonic() + seconds
    path = paths.generation_socket(number)
    try:
        generation = Generation.at(number, path, seconds)
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)
        paths.catalogue(number).unlink(missing_ok=True)
        return None
    except OSError as error:
        return str(error)
    patience = deadline - time.monotonic() if paths.catalogue(number).exists() else IMPORTING_SECONDS
    try:
        return Found(generation, generation.attach(patience))
    except (OSError, EOFError, ProtocolError) as error:
        return str(error) or "it went away"


def locked_generations(paths: Paths) -> frozenset[int]:
    """The generations whose forkserver lives, answering or not: their flock is held. Others' locks are removed."""
    return still_locked(paths, _numbers(paths.state, "generation-*.lock"))


def still_locked(paths: Paths, numbers: Iterable[int]) -> frozenset[int]:
    """As `locked_generations`, of these: no other's lock is touched, which may be about to be taken."""
    return frozenset(number for number in numbers if _is_locked(paths.generation_lock(number)))


def remove_dead(paths: Paths) -> None:
    """The sockets of forkservers that nobody could attach to, and that have ended since."""
    for number in set(_numbers(paths.runtime, "generation-*.sock")) - locked_generations(paths):
        paths.generation_socket(number).unlink(missing_ok=True)
        paths.catalogue(number).unlink(missing_ok=True)


def next_number(paths: Paths) -> int:
    taken = [*_numbers(paths.runtime, "generation-*.*"), *_numbers(paths.state, "generation-*.lock")]
    return max(taken, default=0) + 1


def keep_trials(paths: Paths, number: int) -> None:
    """A forkserver that was ready has died: the next one need not try its modules out again."""
    with contextlib.suppress(OSError):
        paths.catalogue(number).rename(paths.trials)


def drop_trials(paths: Paths) -> None:
    """Nobody will go by them: the next one tries its modules out, or there is no next one."""
    paths.trials.unlink(missing_ok=True)


def start_forkserver(
    paths: Paths, number: int, settings: Settings, containment: Containment, *, again: bool
) -> tuple[Child, Generation]:
    """Exec a new forkserver and connect to it; its hello comes when its imports are done.

    It inherits a socket that listens already, so that the connection waits in the backlog. Its output goes to
    a log of its own: it outlives its supervisor, and must not hold the supervisor's terminal or pipe open.
    again: it takes the place of one that was ready, and goes by that one's trials.
    """
    path = paths.generation_socket(number)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    with listen(path, socket.SOCK_SEQPACKET) as listener:
        log = os.open(paths.generation_log(number), flags, 0o600)
        try:
            order = json.dumps(asdict(_order(paths, number, settings, containment, again=again)))
            command = [sys.executable, "-m", "chong.worker.forkserver", order]
            environment = environment_of_tasks(os.environ, settings.pass_env)
            child = Child(command, environment, listener=listener.fileno(), log=log)
        finally:
            os.close(log)
        try:
            return child, Generation.at(number, path)
        except OSError:
            child.end()
            raise


def _order(
    paths: Paths, number: int, settings: Settings, containment: Containment, *, again: bool
) -> ForkserverSettings:
    return ForkserverSettings(
        generation=number,
        listen_fd=LISTENER,
        lock=str(paths.generation_lock(number)),
        runs=str(paths.runs),
        catalogue=str(paths.catalogue(number)),
        modules=settings.modules,
        hold=settings.hold,
        ladder=settings.ladder,
        import_timeout=settings.import_seconds,
        open_files=settings.worker_open_files,
        trials=str(paths.trials) if again else None,
        cgroup=None if containment.directory is None else str(containment.directory),
    )


def _numbers(directory: Path, pattern: str) -> list[int]:
    numbers = set()
    for path in directory.glob(pattern):
        with contextlib.suppress(ValueError):
            numbers.add(int(path.stem.removeprefix("generation-")))
    return sorted(numbers)


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
