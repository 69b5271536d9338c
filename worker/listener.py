"""What comes down to a worker while its task runs, and what it answers: stop, pause, resume."""

from collections.abc import Callable
from os import getpid, kill
from signal import SIG_DFL, SIGTERM, signal
from threading import current_thread, main_thread

from chong.worker.channel import Channel
from chong.worker.plain import encode_plain
from chong.worker.progress import Progress
from chong.worker.wire import Down, DownFrame, Up


class TaskStopped(BaseException):
    """A stop was asked. Let it pass: clean up in `finally`.

    Not an Exception, so that an `except Exception` around one item does not swallow it.
    """

    __module__ = "chong.worker"  # where authors find it, and so what a failure's cause calls it


class Listener:
    """Listens in the worker's main thread only. A stop is acknowledged and delivered once, and beats a pause."""

    def __init__(self, channel: Channel, progress: Progress) -> None:
        self.channel = channel
        self.progress = progress
        self._process = getpid()
        self._acknowledged = False
        self._delivered = False
        self._cancel: Callable[[], object] | None = None
        self._ends: tuple[type[BaseException], ...] = (TaskStopped,)

    @property
    def is_worker(self) -> bool:
        """False in a fork of the task, which would take our frames, and use our numbers twice."""
        return getpid() == self._process

    @property
    def may_listen(self) -> bool:
        return current_thread() is main_thread() and self.is_worker

    @property
    def is_cancelling(self) -> bool:
        """Whether a stop cancels, instead of raising."""
        return self._cancel is not None

    def cancel_by(self, cancel: Callable[[], object], leaves_with: type[BaseException]) -> None:
        """Let a stop call `cancel` instead of raising; the task then leaves with this exception."""
        self._cancel = cancel
        self._ends = (TaskStopped, leaves_with)

    def hear(self) -> None:
        """Take in what has come. Only a checkpoint pauses or raises, but a stop cancels at once."""
        self.channel.read()
        if self.is_cancelling:
            self._stopped()
        if self.channel.inbox or (self.channel.stop is not None and not self._delivered):
            self.channel.noted = True  # let the next checkpoint see what was read here

    def turn(self) -> None:
        """A checkpoint: act on what has come, and report."""
        if not self.is_worker:
            return
        if self.may_listen:
            self._answer()
        self.progress.report()

    def close(self) -> None:
        """The task has left: nothing is raised any more, and what was held back leaves."""
        signal(SIGTERM, SIG_DFL)
        self.progress.flush()

    def is_stop_asked(self) -> bool:
        """Whether a stop was asked; to look at it is to acknowledge it."""
        if self.channel.noted and self.may_listen:
            self.hear()
        if self.channel.stop is None:
            return False
        self._acknowledge(self.channel.stop)
        return True

    def is_end_by_stop(self, error: BaseException) -> bool:
        """Whether the task left because of a stop."""
        return issubclass(type(error), self._ends) and self.is_stop_asked()

    def interrupt_on_term(self) -> None:
        """Let SIGTERM deliver a stop that was asked, even inside a blocking call."""
        self.channel.when_free = self._interrupt
        signal(SIGTERM, self._on_term)

    def _on_term(self, _signal: int, _frame: object) -> None:
        if self.channel.is_free():
            self._interrupt()

    def _interrupt(self) -> None:
        self.channel.noted = True
        if not (self.is_worker and self.is_stop_asked()):
            signal(SIGTERM, SIG_DFL)
            kill(getpid(), SIGTERM)
        elif not self.is_cancelling:
            self._delivered = True
            raise TaskStopped("stopped by SIGTERM")

    def _answer(self) -> None:
        """Frames in their order; a stop beats what else there is, and a pause waits for the next word."""
        self.channel.read()
        paused = False
        while not self._stopped():
            while self.channel.inbox:
                frame = self.channel.inbox.popleft()
                paused = frame.kind is Down.PAUSE
                self.progress.flush()
                self.channel.send(Up.PAUSED if paused else Up.RESUMED, _answer_to(frame))
            if not paused:
                return
            self.channel.wait(None)
            self.channel.read()

    def _stopped(self) -> bool:
        if self.channel.stop is None:
            return False
        self._acknowledge(self.channel.stop)
        self.channel.inbox.clear()
        if not self._delivered:
            self._delivered = True
            if self._cancel is None:
                raise TaskStopped("a stop was asked")
            self._cancel()
        return True

    def _acknowledge(self, frame: DownFrame) -> None:
        if not self._acknowledged and self.is_worker:
            self._acknowledged = True
            self.channel.send(Up.STOPPING, _answer_to(frame))


def _answer_to(frame: DownFrame) -> dict[str, str]:
    return {"answer": encode_plain([frame.epoch, frame.sequence])}
