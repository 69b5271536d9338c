"""A task that is a coroutine: its event loop, which also watches the worker's channel."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from chong.worker.listener import Listener

TIDY_SECONDS = 2.0
"""How long what is left on the loop may take to end, once it was cancelled; twice that is within a teardown's grace."""


class AsyncRun:
    """One event loop for one task. `close` comes after the verdict, so that nothing left behind can change it."""

    def __init__(self, listener: Listener, end_threads: Callable[[], None]) -> None:
        self._listener = listener
        self._end_threads = end_threads
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)

    def finish(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """What the coroutine comes to. A stop cancels it, once."""
        task = self._loop.create_task(coroutine)
        # Not at once: a task that looks, and returns in the same step, keeps its result.
        self._listener.cancel_by(lambda: self._loop.call_soon_threadsafe(task.cancel), asyncio.CancelledError)
        self._loop.add_reader(self._listener.channel, self._hear)
        self._listener.hear()
        return self._loop.run_until_complete(task)

    def close(self) -> None:
        """Cancel what is left on the loop, then wait for threads, as an interpreter would at its end.

        After a stop nobody waits for threads: they cannot be cancelled, and may be in a long call.
        """
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._tidy(left)
        self._tidy({self._loop.create_task(self._loop.shutdown_asyncgens())})
        if not self._listener.is_stop_asked():
            self._end_threads()

    def discard(self) -> None:
        """Give back what the loop holds, in a process that lives on."""
        self._loop.remove_reader(self._listener.channel)
        asyncio.set_event_loop(None)
        self._loop.close()

    def _hear(self) -> None:
        if not self._listener.is_worker:
            return  # in a fork that came back to this loop; to stop watching would do so for its parent, too
        self._listener.hear()
        if self._listener.channel.closed:
            self._loop.remove_reader(self._listener.channel)

    def _tidy(self, tasks: set[asyncio.Task[Any]]) -> None:
        if not tasks:
            return
        done, pending = self._loop.run_until_complete(asyncio.wait(tasks, timeout=TIDY_SECONDS))
        for task in pending:
            self._complain(task, f"chong: a task did not end within {TIDY_SECONDS:g} s of being cancelled")
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                self._complain(task, "chong: a task failed while it was being cancelled", exception=error)

    def _complain(self, task: asyncio.Task[Any], message: str, **more: Any) -> None:
        self._loop.call_exception_handler({"message": message, "task": task, **more})
