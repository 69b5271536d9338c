"""The supervisor's part in a rehearsal: at the moments that a test names it tells the task to stop or to pause."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from socket import AF_UNIX, MSG_DONTWAIT, SOCK_SEQPACKET, socketpair
from typing import Any

from chong.worker.channel import Channel
from chong.worker.plain import decode_plain
from chong.worker.wire import FRAME_LIMIT, Down, Up, decode_up, encode_down

MOST_MOMENTS = 100_000


class EndlessTaskError(BaseException):
    """The task has come to more moments than a test should take; it is not the task's to catch."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One at which the task could hear of a stop; `number` counts them from 1.

    kind: "checkpoint", "sleep" (of so many `seconds`), or "look" at `stop_requested`.
    """

    number: int
    kind: str
    done: float | None = None
    total: float | None = None
    message: str | None = None
    state: Any = None
    seconds: float | None = None


At = int | Callable[[Moment], bool] | None
"""A moment, by its number or by what is asked of each."""


class Script:
    """Speaks to the task over a real socket, whose other end is `channel`, in the numbered frames of a supervisor.

    A pause lasts for a call of `while_paused`. When a stop falls on the same moment, it comes in the pause.
    """

    def __init__(self, stop_at: At, pause_at: At, while_paused: Callable[[], object] | None) -> None:
        self._supervisor, worker = socketpair(AF_UNIX, SOCK_SEQPACKET)
        self.channel = _ScriptedChannel(worker.detach(), self._in_pause)
        self.moments: list[Moment] = []
        self.log = StringIO()
        self.answers: list[Up] = []
        """What the task has acknowledged, in its order."""
        self.is_stop_asked = False
        self._stop_at = stop_at
        self._pause_at = pause_at
        self._while_paused = while_paused
        self._stops_in_pause = False
        self._sequence = 0

    def arrive(self, kind: str, drives: bool, **facts: Any) -> None:
        """The task is about to come to a moment. `drives`: it would hear, being in the main thread."""
        moment = Moment(len(self.moments) + 1, kind, **facts)
        if moment.number > MOST_MOMENTS:
            raise EndlessTaskError(f"expected at most {MOST_MOMENTS} moments, the task goes on; stop_at ends it")
        self.moments.append(moment)
        if drives:
            self._drive(moment)
        self._take_in()

    def take_back(self) -> None:
        """The last moment did not count: the task was told that what it said is invalid."""
        self.moments.pop()

    def settle(self) -> None:
        """Take in what the task has answered at last."""
        self._take_in()

    def close(self) -> None:
        self._supervisor.close()
        self.channel.close()

    def lines(self) -> list[dict[str, Any]]:
        """What the task has logged."""
        return [decode_plain(line.encode()) for line in self.log.getvalue().splitlines()]

    def _drive(self, moment: Moment) -> None:
        stops = not self.is_stop_asked and _is_at(self._stop_at, moment)
        if _is_at(self._pause_at, moment) and not self.is_stop_asked:
            self._stops_in_pause = stops
            self._send(Down.PAUSE)
        elif stops:
            self._stop()

    def _stop(self) -> None:
        self.is_stop_asked = True
        self._send(Down.STOP)

    def _in_pause(self) -> None:
        self._take_in()
        if self._while_paused is not None:
            self._while_paused()
        if self._stops_in_pause:
            self._stop()
        else:
            self._send(Down.RESUME)

    def _send(self, kind: Down) -> None:
        self._sequence += 1
        self._supervisor.send(encode_down(kind, 1, self._sequence))
        self.channel.noted = True  # as the signal's handler would

    def _take_in(self) -> None:
        with suppress(BlockingIOError):
            while data := self._supervisor.recv(FRAME_LIMIT + 1, MSG_DONTWAIT):
                kind = decode_up(data).kind
                if kind in {Up.STOPPING, Up.PAUSED, Up.RESUMED}:
                    self.answers.append(kind)


class _ScriptedChannel(Channel):
    """Nobody would wake it: where the task would wait for the end of a pause, that comes."""

    def __init__(self, descriptor: int, in_pause: Callable[[], None]) -> None:
        super().__init__(descriptor)
        self._in_pause = in_pause

    def wait(self, seconds: float | None) -> None:
        if seconds is None:
            self._in_pause()


def _is_at(at: At, moment: Moment) -> bool:
    return bool(at(moment)) if callable(at) else at == moment.number
