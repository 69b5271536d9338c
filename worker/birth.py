"""A worker's birth: the fork, and the way from the forkserver's process to a pristine one."""

import gc
import os
import resource
import signal
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from os import _exit, fork, write
from socket import AF_UNIX, SOCK_SEQPACKET, socketpair

from setproctitle import setproctitle

from chong.worker import cgroup
from chong.worker.conditions import Conditions
from chong.worker.definition import Definition
from chong.worker.execd import exec_worker
from chong.worker.exithandlers import forget_exit_handlers
from chong.worker.leash import arm_leash, check_leash
from chong.worker.options import Options
from chong.worker.pristine import reseed
from chong.worker.run import run_task
from chong.worker.spawn import SpawnOrder
from chong.worker.wire import CHANNEL_FD, LEASH_FD

MARKER = "CHONG_RUN"
"""The environment variable by which a descendant of a run is known wherever it went."""
OOM_SCORE = b"500"
LAST_FD = 1 << 20
ALL_SIGNALS = frozenset(signal.valid_signals())


@dataclass(frozen=True, slots=True)
class Nursery:
    """What every worker of this generation gets."""

    definitions: Mapping[str, Definition]
    leash: int
    null: int
    open_files: tuple[int, int]  # the limit before the forkserver raised it for itself
    options: Mapping[str, Options]  # by task
    executed: Mapping[str, str]  # modules that bear no fork, by task
    runs: str
    groups: str | None  # the cgroup in which each run gets one


@dataclass(frozen=True, slots=True)
class Newborn:
    pid: int
    pidfd: int
    channel: int  # the supervisor's end S
    group: str | None


def bear(nursery: Nursery, spawn: SpawnOrder, log: int) -> Newborn:
    """Fork a worker whose output goes to `log`; OSError when there is no room for one."""
    ours, theirs = (end.detach() for end in socketpair(AF_UNIX, SOCK_SEQPACKET))
    group = None
    try:
        group = None if nursery.groups is None else cgroup.make(nursery.groups, spawn.run)
        pid = _fork(nursery, spawn, log, theirs, group)
        pidfd = os.pidfd_open(pid)  # its failure closes S: the child then ends before any `go`
    except OSError:
        os.close(ours)
        cgroup.discard(group)
        raise
    finally:
        os.close(theirs)
    return Newborn(pid, pidfd, ours, group)


def _fork(nursery: Nursery, spawn: SpawnOrder, log: int, channel: int, group: str | None) -> int:
    """All signals wait: one that came in between would be taken by the forkserver's handlers, and lost."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ALL_SIGNALS)
    try:
        pid = fork()
        if pid == 0:
            _be_worker(nursery, spawn, log, channel, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _be_worker(nursery: Nursery, spawn: SpawnOrder, log: int, channel: int, group: str | None) -> None:
    """Never returns, whatever happens: the frames above belong to the forkserver."""
    try:
        _settle(nursery, log, channel)
        setproctitle(spawn.title)
        forget_exit_handlers()
        reseed()
        options = nursery.options.get(spawn.task, Options())
        conditions = Conditions(options, group, f"{nursery.runs}/{spawn.run}")
        conditions.meet(is_fork=spawn.task not in nursery.executed)
        os.environ[MARKER] = spawn.run
        if spawn.task in nursery.executed and conditions.obstacle is None:
            exec_worker(nursery.executed[spawn.task], spawn.title, conditions)
        gc.enable()
        run_task(nursery.definitions, conditions.run_dir, conditions.obstacle)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
    finally:
        _exit(70)


def _settle(nursery: Nursery, log: int, channel: int) -> None:
    """Dispositions, faulthandler, the core limit and random's seeding after a fork are the forkserver's work."""
    os.setsid()
    os.dup2(nursery.null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.dup2(channel, CHANNEL_FD, inheritable=False)
    arm_leash(nursery.leash)
    os.closerange(LEASH_FD + 1, LAST_FD)
    check_leash()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_NOFILE, nursery.open_files)
    _volunteer_for_oom()


def _volunteer_for_oom() -> None:
    try:
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        write(score, OOM_SCORE)
    except OSError:
        pass  # only lowering is refused: it already stands higher
    finally:
        os.close(score)
