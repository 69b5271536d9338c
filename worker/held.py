"""One run as the forkserver holds it, from its fork to its release."""

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chong.worker import cgroup
from chong.worker.kernel import Used, used_by
from chong.worker.watch import complain

Status = tuple[int | None, int | None]
"""Exit code and signal: one of them, or neither when somebody else had reaped the process."""
TOLD_LIMIT = 10
"""So many strays are told by name: a chain of forks must not push the task's own output out of its log."""


@dataclass(slots=True)
class Held:
    run: str
    pid: int
    pidfd: int
    channel: int  # the supervisor's end S
    memo: Any
    title: str
    log: tuple[int, int]  # device and inode
    log_path: str = ""
    group: str | None = None  # its cgroup
    born: float = 0.0  # seconds since the boot
    status: Status | None = None
    used: Used | None = None
    oom: bool = False  # the kernel killed something of it for want of memory
    ended_at: float | None = None  # seconds since the epoch
    exited: bool = False  # it ended, and nothing of it is left
    released: bool = False
    strays: int = 0  # how many were told

    @classmethod
    def identity_of(cls, log: int) -> tuple[int, int]:
        facts = os.fstat(log)
        return facts.st_dev, facts.st_ino

    @property
    def is_alive(self) -> bool:
        return self.status is None

    def facts(self) -> dict[str, Any]:
        """What an attach hears of it."""
        identity = {"run": self.run, "pid": self.pid, "memo": self.memo, "title": self.title}
        return {**identity, **self.end(), "exited": self.exited}

    def end(self) -> dict[str, Any]:
        """How it ended, for the supervisor; of one that has not, nothing yet."""
        code, number = self.status or (None, None)
        cpu, most = self.used or (None, None)
        end = {"code": code, "signal": number, "at": self.ended_at}
        return {**end, "cpu_seconds": cpu, "max_rss_bytes": most, "oom": self.oom}

    def descriptors(self) -> tuple[int, ...]:
        return () if self.released else (self.channel, self.pidfd)

    def read_status(self) -> Status | None:
        """Leaves the zombie: its pid, and so its group, cannot be anybody else's until the release."""
        try:
            end = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return (None, None)
        if end is None:
            return None
        self.used = used_by(self.pidfd)
        return (end.si_status, None) if end.si_code == os.CLD_EXITED else (None, end.si_status)

    def kill_rest(self) -> None:
        """Everything that is left of it, and of its cgroup with it."""
        self.signal_group(signal.SIGKILL)
        if self.group is not None:
            with suppress(OSError):  # somebody removed it
                self.oom = cgroup.oom_kills(self.group) > 0
                for pid in cgroup.members(self.group):
                    self.tell_stray(pid)
                cgroup.kill(self.group)

    def tell_stray(self, pid: int) -> None:
        """In the run's own log, before the process is killed: whoever had started it would look for it in vain."""
        try:
            if os.getpgid(pid) == self.pid or self.strays == TOLD_LIMIT:
                return
            name = Path(f"/proc/{pid}/comm").read_text(errors="backslashreplace").strip()
        except OSError:
            return  # it has ended by itself
        self.strays += 1
        shown = "".join(letter if letter.isprintable() else " " for letter in name)
        try:
            self._write_log(f"chong: killed process {pid} ({shown}), which was left behind\n".encode())
        except OSError as error:
            complain(f"log of {self.run}: {error}")

    def _write_log(self, line: bytes) -> None:
        log = os.open(self.log_path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            size = os.fstat(log).st_size
            os.write(log, line if size == 0 or os.pread(log, 1, size - 1) == b"\n" else b"\n" + line)
        finally:
            os.close(log)

    def thaw(self) -> None:
        """A frozen cgroup would see no signal but SIGKILL."""
        if self.group is not None:
            with suppress(OSError):
                cgroup.thaw(self.group)

    def signal_group(self, number: int) -> None:
        """To the process itself as well: before its setsid it has no group of its own."""
        try:
            os.killpg(self.pid, number)
        except OSError:
            with suppress(OSError):
                signal.pidfd_send_signal(self.pidfd, number)

    def reap(self) -> None:
        with suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
        self.close()
        cgroup.discard(self.group)

    def close(self) -> None:
        """A worker that waits for its `go` ends by this."""
        self.released = True
        os.close(self.pidfd)
        os.close(self.channel)
