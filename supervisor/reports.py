"""What forkservers report, as values: everything of a message is checked here, once, or it is no message.

A forkserver may be of another version, or hurt by the modules that it has imported. What it says wrongly ends it, and
nothing else.
"""

import os
import signal
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chong.supervisor.memo import options_of
from chong.supervisor.verdict import ProcessEnd, usage_of
from chong.worker.options import Options
from chong.worker.wire import TIME_LIMIT, ProtocolError, Report

Body = dict[str, Any]
Descriptors = tuple[int, ...]

PID_MOST = 2**22
"""The kernel's own limit."""
STATUS_MOST = 255
DESCRIPTORS_OF_A_RUN = 2


@dataclass(frozen=True, slots=True)
class Hello:
    """The first word; the leash's write end is the receiver's to close."""

    protocol: int
    pid: int
    served: frozenset[str]
    catalogue: Path
    leash: int

    @property
    def descriptors(self) -> Descriptors:
        return (self.leash,)


@dataclass(frozen=True, slots=True)
class Spawned:
    """A worker was forked; its channel and its pidfd are the receiver's to close."""

    run: str
    pid: int
    channel: int
    pidfd: int

    @property
    def descriptors(self) -> Descriptors:
        return (self.channel, self.pidfd)


@dataclass(frozen=True, slots=True)
class Worker(Spawned):
    """A run that was not released, as an attach lists it; `end` is None while something of it lives."""

    memo: Any
    options: Options
    end: ProcessEnd | None


@dataclass(frozen=True, slots=True)
class Attached:
    """The list is complete."""

    descriptors: Descriptors = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """A run could not be forked."""

    run: str
    reason: str
    descriptors: Descriptors = ()


@dataclass(frozen=True, slots=True)
class Exited:
    """A run has ended, and nothing of it is left."""

    run: str
    end: ProcessEnd
    descriptors: Descriptors = ()


@dataclass(frozen=True, slots=True)
class Pong:
    """It was asked for a word."""

    descriptors: Descriptors = ()


Told = Hello | Worker | Attached | Spawned | Refused | Exited | Pong


def parse(body: Body, descriptors: Descriptors) -> Told:
    """A message's value; ProtocolError when it makes no sense, and then its descriptors are closed."""
    try:
        told = _PARSERS[Report(str(body.get("op")))](body, descriptors)
        if told.descriptors != descriptors:
            raise ValueError(f"expected {len(told.descriptors)} descriptors, got {len(descriptors)}")
    except (KeyError, TypeError, ValueError, OverflowError, OSError) as error:
        close_all(descriptors)
        raise ProtocolError(f"{str(body.get('op'))[:40]!r} is not understood: {error!r}"[:300]) from error
    return told


def close_all(descriptors: Descriptors) -> None:
    """Nobody takes them."""
    for descriptor in descriptors:
        os.close(descriptor)


def _hello(body: Body, descriptors: Descriptors) -> Hello:
    if len(descriptors) != 1:
        raise ValueError(f"expected its leash beside its hello, got {len(descriptors)} descriptors")
    served = frozenset(map(str, body["served"]))
    return Hello(int(body["protocol"]), _pid(body), served, Path(body["catalogue"]), descriptors[0])


def _spawned(body: Body, descriptors: Descriptors) -> Spawned:
    return Spawned(_run(body), _pid(body), *_of_a_run(descriptors))


def _worker(body: Body, descriptors: Descriptors) -> Worker:
    memo = body.get("memo")
    end = _end(body) if body["exited"] else None
    return Worker(_run(body), _pid(body), *_of_a_run(descriptors), memo, options_of(memo), end)


def _refused(body: Body, _: Descriptors) -> Refused:
    return Refused(_run(body), str(body.get("reason"))[:500])


def _exited(body: Body, _: Descriptors) -> Exited:
    return Exited(_run(body), _end(body))


_PARSERS: dict[Report, Callable[[Body, Descriptors], Told]] = {
    Report.HELLO: _hello,
    Report.WORKER: _worker,
    Report.ATTACHED: lambda _, __: Attached(),
    Report.SPAWNED: _spawned,
    Report.REFUSED: _refused,
    Report.EXITED: _exited,
    Report.PONG: lambda _, __: Pong(),
}


def _run(body: Body) -> str:
    run = body["run"]
    if not isinstance(run, str):
        raise TypeError(f"run: expected text, got {run!r}")
    return run


def _pid(body: Body) -> int:
    """Signals go to it: 0 and -1 would mean this process's group, and everybody."""
    pid = _whole("pid", body["pid"], PID_MOST)
    if pid is None or pid <= 1:
        raise ValueError(f"pid: expected a process's number, got {pid!r}")
    return pid


def _of_a_run(descriptors: Descriptors) -> tuple[int, int]:
    if len(descriptors) != DESCRIPTORS_OF_A_RUN:
        raise ValueError(f"expected {DESCRIPTORS_OF_A_RUN} descriptors, got {len(descriptors)}")
    channel, pidfd = descriptors
    if not stat.S_ISSOCK(os.fstat(channel).st_mode):
        raise ValueError("channel: expected a socket, got another descriptor")
    with suppress(ProcessLookupError, PermissionError):
        signal.pidfd_send_signal(pidfd, 0)  # OSError when it is no pidfd
    return channel, pidfd


def _end(body: Body) -> ProcessEnd:
    """An end as a forkserver tells it, one of another version perhaps not when."""
    at = body.get("at")
    if at is not None and not (type(at) in {int, float} and 0 <= at < TIME_LIMIT):
        raise ValueError(f"at: expected seconds since the epoch, got {at!r}")
    return ProcessEnd(
        _whole("code", body.get("code"), STATUS_MOST),
        _whole("signal", body.get("signal"), signal.NSIG),
        None if at is None else datetime.fromtimestamp(at, UTC),
        usage_of(body),
        bool(body.get("oom")),
    )


def _whole(name: str, value: object, most: int) -> int | None:
    if value is not None and not (type(value) is int and 0 <= value <= most):
        raise ValueError(f"{name}: expected 0 to {most}, got {value!r}"[:200])
    return value
