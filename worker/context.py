"""What a task sees of chong."""

from time import sleep
from typing import Any, TextIO

from chong.worker.clock import monotonic
from chong.worker.listener import Listener


class TaskContext:
    """The task's identity, its parameters, and its line to the supervisor.

    deadline: when the time-out ends this run, in seconds since the epoch, as known at the start; None without one.
    last_checkpoint: the newest `state` that an earlier attempt of this task reported.
    """

    def __init__(self, listener: Listener, go: dict[str, Any], params: dict[str, Any], last_checkpoint: Any) -> None:
        task = go["task"]
        self.id: str = task["id"]
        self.name: str = task["name"]
        self.key: str | None = task.get("key")
        self.bucket: int | None = task.get("bucket")
        self.attempt: int = task["attempt"]
        self.deadline: float | None = task.get("deadline")
        self.params = params
        self.last_checkpoint = last_checkpoint
        self._listener = listener
        self._channel = listener.channel
        self._progress = listener.progress
        self._log: Any = None

    def checkpoint(
        self, done: float | None = None, total: float | None = None, message: str | None = None, state: Any = None
    ) -> None:
        """Report, wait here while paused, and raise `TaskStopped` once when a stop was asked.

        In an async task a stop cancels instead, at the next `await`; a pause holds the whole event loop here.
        Cheap enough for an inner loop: some 20 reports a second leave, the newest wins. `state` is JSON of at most
        256 KiB, kept for the next attempt. Raises ValueError for values that no store takes.
        """
        if done is not None or total is not None or message is not None or state is not None:
            self._progress.take(done, total, message, state)
        if self._channel.noted or monotonic() >= self._progress.due:
            self._listener.turn()

    def sleep(self, seconds: float) -> None:
        """Sleep; a stop or a pause takes effect at once. RuntimeError in an async task, which it would hold up."""
        self._check_sleep(seconds)
        listens = self._listener.may_listen
        end = monotonic() + seconds
        self.checkpoint()
        while (left := end - monotonic()) > 0:
            if listens:
                self._channel.wait(min(left, 1.0))  # the heart beats meanwhile
            else:
                sleep(min(left, 0.25))
            self.checkpoint()

    @property
    def stop_requested(self) -> bool:
        """Whether a stop was asked; to look at it is to acknowledge it."""
        return self._listener.is_stop_asked()

    @property
    def log(self) -> Any:
        """A structlog logger that prints JSON lines to the run's log, with the task's ids bound."""
        if self._log is None:
            self._log = self._open_log()
        return self._log

    def _open_log(self, stream: TextIO | None = None) -> Any:
        from chong.worker.tasklog import open_log  # noqa: PLC0415 -- structlog costs most tasks nothing

        return open_log(stream, task=self.id, name=self.name, key=self.key, attempt=self.attempt)

    def _check_sleep(self, seconds: float) -> None:
        if self._listener.may_listen and self._listener.is_cancelling:
            raise RuntimeError("sleep: expected `await asyncio.sleep(...)` in an async task, got ctx.sleep")
        if not seconds >= 0:
            raise ValueError(f"sleep: expected seconds of at least 0, got {seconds!r}")
