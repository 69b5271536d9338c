"""The conditions of a run: what its definition says of memory, niceness, user, environment, directory and umask.

Met in the child, after the leash is armed and everything that is not the run's own is closed. A condition that cannot
be met is the run's failure: no user code runs, and nothing runs in another place or as another user instead.
"""

import os
import resource
import time
from pathlib import Path

from chong.worker import cgroup
from chong.worker.account import account_of, become, environment_of
from chong.worker.failure import Facts, cause_of, fact
from chong.worker.options import Options

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Conditions:
    """group: the run's cgroup, None without one. run_dir: where its files go.

    After `meet`: `obstacle` is the failure to report instead of running, `run_dir` is what the run can reach, by the
    descriptor `directory` if there is one.
    """

    def __init__(self, options: Options, group: str | None, run_dir: str) -> None:
        self._options = options
        self._group = group
        self.run_dir = run_dir
        self.directory: int | None = None
        self.obstacle: Facts | None = None

    def meet(self, *, is_fork: bool) -> None:
        """is_fork: the run keeps the memory of this process; a new interpreter begins with none."""
        try:
            if self._group is not None:
                cgroup.enter(self._group)
            self._limit(is_fork=is_fork)
            self._change_user()
            self._set_place()
        except Exception as error:  # noqa: BLE001 - whatever it is, the task is told why it did not run
            self.obstacle = fact("exception", cause_of(error), str(error))

    def _limit(self, *, is_fork: bool) -> None:
        if self._options.nice:
            os.nice(self._options.nice)
        size = self._options.memory
        if size is not None and (self._group is None or not cgroup.limit_memory(self._group, size)):
            _limit_data(size, least=_data_size() if is_fork else 0)

    def _change_user(self) -> None:
        """The run's files lie where only the supervisor may go: the user gets a directory of its own by descriptor."""
        if self._options.user is None:
            return
        account = account_of(self._options.user)
        Path(self.run_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory = os.open(self.run_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        own = f"/proc/self/fd/{self.directory}"
        os.chown(own, account.pw_uid, account.pw_gid)
        os.fchown(1, account.pw_uid, account.pw_gid)  # else a child could not open /dev/stdout
        become(account)
        self.run_dir = own
        os.environ.update(environment_of(account))

    def _set_place(self) -> None:
        os.environ.update(self._options.env)
        if "TZ" in self._options.env:
            time.tzset()
        if self._options.umask is not None:
            os.umask(self._options.umask)
        if self._options.cwd is not None:
            try:
                os.chdir(self._options.cwd)
            except OSError as error:
                text = f"cwd: expected a directory that the run may enter, got {self._options.cwd!r}: {error.strerror}"
                raise type(error)(text) from None


def _data_size() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * _PAGE


def _limit_data(size: int, least: int) -> None:
    """RLIMIT_DATA, not RLIMIT_AS: libraries map and reserve much more than they ever touch."""
    if size <= least:
        raise MemoryError(f"memory: expected more than the {least} bytes that the task modules take, got {size}")
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = size if hard == resource.RLIM_INFINITY else min(size, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
