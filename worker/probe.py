"""One probe: a child of the forkserver that imports task modules on trial, one at a time, as it is asked to.

It is given up after the first module that is not clean, so that nothing which that module did reaches the next one.
"""

import faulthandler
import os
import select
import signal
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from json import loads
from os import _exit, fork, read, write
from socket import AF_UNIX, SOCK_STREAM, socketpair
from typing import NoReturn

from setproctitle import setproctitle

from chong.worker.birth import LAST_FD
from chong.worker.clock import monotonic
from chong.worker.leash import arm_leash, check_leash
from chong.worker.originals import Originals
from chong.worker.place import place_in
from chong.worker.plain import encode_plain
from chong.worker.pristine import Pristine
from chong.worker.trial import Trial, count_threads, try_module
from chong.worker.wire import CHANNEL_FD, LEASH_FD

TRACE_FD = LEASH_FD + 1
REPORT_LIMIT = 16 * 1024 * 1024
END_SECONDS = 1.0
"""How long a killed process may take to be gone; one that the kernel does not let go is left alone."""
TRACE_SECONDS = 0.5


class Probe:
    """The forkserver's side; OSError when there is no room for a process."""

    def __init__(self, modules: Sequence[str], leash: int) -> None:
        self.asked: int | None = None
        """Which of the modules it is at, None while it waits."""
        self.since = 0.0
        self._modules = modules
        self._said = b""
        self._trace = os.memfd_create("chong-trace")
        self.channel, theirs = (end.detach() for end in socketpair(AF_UNIX, SOCK_STREAM))
        os.set_blocking(self.channel, False)
        try:
            self.pid = fork()
            if self.pid == 0:
                _be_probe(modules, theirs, self._trace, leash)
            self.pidfd = os.pidfd_open(self.pid)  # its failure closes the channel: the child then ends by itself
        except OSError:
            os.close(self.channel)
            os.close(self._trace)
            raise
        finally:
            os.close(theirs)

    def ask(self, index: int) -> None:
        self.asked, self.since = index, monotonic()
        with suppress(BrokenPipeError):  # it has died: `hear` says how
            write(self.channel, b"%d\n" % index)

    def hear(self) -> Trial | None:
        """What the module in question came to, as soon as that is known."""
        ended = self.ended()
        self._listen()
        if len(self._said) > REPORT_LIMIT:
            return self._blame(f"it defines too much: expected at most {REPORT_LIMIT} bytes of definitions, got more")
        if b"\n" in self._said:
            return self._told()
        return None if ended is None else self._blame(f"it ended the process: {ended}")

    def give_up(self, limit: float) -> Trial:
        """It is late. The traceback shows where it is."""
        self._signal(signal.SIGABRT)
        self._wait_end(TRACE_SECONDS)
        return self._blame(f"it did not finish its import within {limit:g} s")

    def ended(self) -> str | None:
        """How the process ended; its group stays ours until it is closed."""
        end = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if end is None:
            return None
        if end.si_code == os.CLD_EXITED:
            return f"exit code {end.si_status}"
        return f"signal {end.si_status} ({signal.strsignal(end.si_status)})"

    def close(self) -> None:
        """Nothing of its group is left."""
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        self._signal(signal.SIGKILL)
        self._wait_end(END_SECONDS)
        os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
        for descriptor in (self.channel, self.pidfd, self._trace):
            os.close(descriptor)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def _wait_end(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        poll.poll(seconds * 1000)

    def _listen(self) -> None:
        with suppress(BlockingIOError, ConnectionResetError):
            while len(self._said) <= REPORT_LIMIT and (part := read(self.channel, 1 << 16)):
                self._said += part

    def _told(self) -> Trial:
        line, _, self._said = self._said.partition(b"\n")
        try:
            told = loads(line)
            trial = Trial(**told | {"tasks": tuple(told["tasks"])})
        except (ValueError, TypeError, KeyError):
            return self._blame(f"it wrote to a descriptor that is not its own: {line[:60]!r}")
        self.asked = None
        return trial

    def _blame(self, error: str) -> Trial:
        assert self.asked is not None
        trace = os.pread(self._trace, 1 << 16, 0).decode(errors="replace")
        module = self._modules[self.asked]
        return Trial.failed(module, error, trace, place_in(trace, module))


def _be_probe(modules: Sequence[str], channel: int, trace: int, leash: int) -> NoReturn:
    """Nothing of the forkserver's stays open here: what a module starts may live on for a while."""
    try:
        os.setsid()
        os.dup2(channel, CHANNEL_FD, inheritable=False)
        os.dup2(trace, TRACE_FD, inheritable=False)
        arm_leash(leash)
        os.closerange(TRACE_FD + 1, LAST_FD)
        check_leash()
        setproctitle("chong: forkserver probe")
        faulthandler.enable(TRACE_FD)
        pristine, originals = Pristine(), Originals()
        while asked := read(CHANNEL_FD, 64):
            trial, _ = try_module(modules[int(asked)], pristine, originals)
            report = encode_plain(asdict(replace(trial, threads=count_threads())))
            _write_all(report.encode("utf-8", "backslashreplace") + b"\n")
    except BaseException:  # noqa: BLE001 -- the forkserver hears of the end
        traceback.print_exc()
        _exit(70)
    finally:
        _exit(0)


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[write(CHANNEL_FD, view) :]
