"""What a task sees of chong."""

import os
import signal
import threading
import time
from time import monotonic
from typing import Any

from chong.worker.channel import Channel
from chong.worker.progress import Progress
from chong.worker.result import encode_plain
from chong.worker.wire import Down, DownFrame, Up


class TaskStopped(BaseException):
    """A stop was asked. Let it pass: clean up in `finally`.

    Not an Exception, so that an `except Exception` around one item does not swallow it.
    """


class TaskContext:
    """The task's identity, its parameters, and its line to the supervisor.

    deadline: when the time-out ends this run, in seconds since the epoch, as known at the start; None without one.
    last_checkpoint: the newest `state` that an earlier attempt of this task reported.
    """

    def __init__(self, channel: Channel, go: dict[str, Any], params: dict[str, Any], last_checkpoint: Any) -> None:
        task = go["task"]
        self.id: str = task["id"]
        self.name: str = task["name"]
        self.key: str | None = task.get("key")
        self.bucket: int | None = task.get("bucket")
        self.attempt: int = task["attempt"]
        self.deadline: float | None = task.get("deadline")
        self.params = params
        self.last_checkpoint = last_checkpoint
        self._channel = channel
        self._progress = Progress(channel, go["run_dir"])
        self._process = os.getpid()
        self._acknowledged = False
        self._raised = False
        self._log: Any = None

    def checkpoint(
        self, done: float | None = None, total: float | None = None, message: str | None = None, state: Any = None
    ) -> None:
        """Report, wait here while paused, and raise `TaskStopped` once when a stop was asked.

        Cheap enough for an inner loop: some 20 reports a second leave, the newest wins. `state` is JSON of at most
        256 KiB, kept for the next attempt. Raises ValueError for values that no store takes.
        """
        if done is not None or total is not None or message is not None or state is not None:
            self._progress.take(done, total, message, state)
        if self._channel.noted or monotonic() >= self._progress.due:
            self._turn()

    def sleep(self, seconds: float) -> None:
        """Sleep; a stop or a pause takes effect at once."""
        if not seconds >= 0:
            raise ValueError(f"sleep: expected seconds of at least 0, got {seconds!r}")
        end = monotonic() + seconds
        self.checkpoint()
        while (left := end - monotonic()) > 0:
            if self._is_main():
                self._channel.wait(min(left, 1.0))  # the heart beats meanwhile
            else:
                time.sleep(min(left, 0.25))
            self.checkpoint()

    @property
    def stop_requested(self) -> bool:
        """Whether a stop was asked; to look at it is to acknowledge it."""
        if self._channel.noted and self._is_main():
            self._channel.read()
            self._keep_note()
        if self._channel.stop is None:
            return False
        self._acknowledge(self._channel.stop)
        return True

    @property
    def log(self) -> Any:
        """A structlog logger that prints JSON lines to the run's log, with the task's ids bound."""
        if self._log is None:
            from chong.worker.tasklog import open_log  # noqa: PLC0415 -- structlog costs most tasks nothing

            self._log = open_log(task=self.id, name=self.name, key=self.key, attempt=self.attempt)
        return self._log

    def close(self) -> None:
        """The task has left: nothing is raised any more, and what was held back leaves."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._progress.flush()

    def interrupt_on_term(self) -> None:
        """SIGTERM raises in the main thread, even inside a blocking call, when a stop was asked."""
        self._channel.when_free = self._interrupt
        signal.signal(signal.SIGTERM, self._on_term)

    def _on_term(self, _signal: int, _frame: object) -> None:
        if self._channel.is_free():
            self._interrupt()

    def _interrupt(self) -> None:
        self._channel.noted = True
        if os.getpid() == self._process and self.stop_requested:
            self._raised = True
            raise TaskStopped("stopped by SIGTERM")
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    def _is_main(self) -> bool:
        return threading.current_thread() is threading.main_thread()

    def _turn(self) -> None:
        if os.getpid() != self._process:
            return  # a fork of the task; its frames would use our numbers twice
        if self._is_main():
            self._channel.read()
            self._answer()
        self._progress.report()

    def _answer(self) -> None:
        """Frames in their order; a stop beats what else there is, and a pause waits for the next word."""
        paused = False
        while not self._stopped():
            while self._channel.inbox:
                frame = self._channel.inbox.popleft()
                paused = frame.kind is Down.PAUSE
                self._progress.flush()
                self._channel.send(Up.PAUSED if paused else Up.RESUMED, _answer_to(frame))
            if not paused:
                return
            self._channel.wait(None)
            self._channel.read()

    def _stopped(self) -> bool:
        if self._channel.stop is None:
            return False
        self._acknowledge(self._channel.stop)
        self._channel.inbox.clear()
        if not self._raised:
            self._raised = True
            raise TaskStopped("a stop was asked")
        return True

    def _acknowledge(self, frame: DownFrame) -> None:
        if not self._acknowledged:
            self._acknowledged = True
            self._channel.send(Up.STOPPING, _answer_to(frame))

    def _keep_note(self) -> None:
        """Only a checkpoint in the main thread pauses or raises: let the next one see what was read here."""
        if self._channel.inbox or (self._channel.stop is not None and not self._raised):
            self._channel.noted = True


def _answer_to(frame: DownFrame) -> dict[str, str]:
    return {"answer": encode_plain([frame.epoch, frame.sequence])}
