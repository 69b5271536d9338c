"""A task's function called in this process as a worker would call it, by the rules that hold there.

Context, listener, progress and frames are those of a worker. What belongs to a process is left out: conditions, graces,
signals, time-outs, and everything that guards against what a task may do to its interpreter.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from threading import current_thread, main_thread
from time import time
from typing import Any

from chong.worker.asyncrun import AsyncRun
from chong.worker.context import TaskContext
from chong.worker.definition import Definition
from chong.worker.failure import describe_trusted, fact
from chong.worker.ids import new_id
from chong.worker.listener import Listener
from chong.worker.outcome import Failure, failure_of
from chong.worker.plain import decode_plain
from chong.worker.progress import Progress
from chong.worker.result import ResultInvalid, ResultTooLarge, encode_params, encode_result, encode_state
from chong.worker.run import _call, _mismatch
from chong.worker.script import At, EndlessTaskError, Moment, Script
from chong.worker.wire import Up

_OURS = (KeyboardInterrupt, EndlessTaskError)
"""What ends the test, and is no end of the task: somebody's Ctrl-C, and a loop without an end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """How a rehearsed attempt ended: `status` is "succeeded", "failed" or "stopped".

    error: what left the function, as it was raised. moments: all at which it could hear. log: the lines of `ctx.log`.
    heard_stop: whether it was told of the stop. pauses: how many it has acknowledged.
    """

    status: str
    result: Any = None
    failure: Failure | None = None
    error: BaseException | None = None
    moments: tuple[Moment, ...] = ()
    log: tuple[Mapping[str, Any], ...] = ()
    heard_stop: bool = False
    pauses: int = 0

    @property
    def checkpoints(self) -> list[Moment]:
        return [moment for moment in self.moments if moment.kind == "checkpoint"]

    @property
    def sleeps(self) -> list[float]:
        """The seconds of each `ctx.sleep`."""
        return [moment.seconds for moment in self.moments if moment.seconds is not None]

    @property
    def last_checkpoint(self) -> Any:
        """The newest `state`: what the next attempt would be given."""
        return next((moment.state for moment in reversed(self.moments) if moment.state is not None), None)

    @property
    def cleaned_up(self) -> bool:
        """Whether a stop went through the task and nothing else was raised on its way: `finally` came to its end."""
        return self.status == "stopped" and self.heard_stop and self.failure is None


class RehearsedContext(TaskContext):
    """Each moment is written down, and is where the script may tell the task something. No sleep takes time."""

    def __init__(self, script: Script, listener: Listener, go: dict[str, Any], params: Any, last: Any) -> None:
        super().__init__(listener, go, params, last)
        self._script = script

    def checkpoint(
        self, done: float | None = None, total: float | None = None, message: str | None = None, state: Any = None
    ) -> None:
        kept = None if state is None else decode_plain(encode_state(state).encode())
        self._arrive("checkpoint", done=done, total=total, message=message, state=kept)
        try:
            super().checkpoint(done, total, message, state)
        except ValueError:
            self._script.take_back()
            raise

    def sleep(self, seconds: float) -> None:
        self._check_sleep(seconds)
        self._arrive("sleep", seconds=seconds)
        super().checkpoint()

    @property
    def stop_requested(self) -> bool:
        self._arrive("look")
        return super().stop_requested

    def _arrive(self, kind: str, **facts: Any) -> None:
        self._script.arrive(kind, self._listener.may_listen, **facts)

    def _open_log(self, _: Any = None) -> Any:
        return super()._open_log(self._script.log)


class Stage:
    """One rehearsal. `task`: its facts as `go` has them."""

    def __init__(self, definition: Definition, script: Script, task: dict[str, Any]) -> None:
        self._definition = definition
        self._script = script
        self._task = task
        self._run: AsyncRun | None = None

    def play(self, params: Mapping[str, Any], last_checkpoint: Any) -> Rehearsal:
        with TemporaryDirectory(prefix="chong-test-") as place:
            listener = Listener(self._script.channel, Progress(self._script.channel, place))
            try:
                return self._played(listener, params, last_checkpoint)
            finally:
                if self._run is not None:
                    self._run.discard()
                self._script.close()

    def _played(self, listener: Listener, params: Mapping[str, Any], last: Any) -> Rehearsal:
        given = decode_plain(encode_params(dict(params)).encode())
        kept = None if last is None else decode_plain(encode_state(last).encode())
        context = RehearsedContext(self._script, listener, {"task": self._task}, given, kept)
        arguments = (context,) if self._definition.wants_context else ()
        mismatch = _mismatch(self._definition, arguments, given)
        if mismatch is not None:
            failure = failure_of(fact("exception", "TypeError", mismatch))
            return self._ended(None, failure, TypeError(mismatch))
        return self._called(listener, partial(_call, self._definition, arguments, given))

    def _called(self, listener: Listener, call: Callable[[], Any]) -> Rehearsal:
        try:
            value = call()
            if isinstance(value, Coroutine):
                value = self._await(listener, value)
            listener.progress.flush()
            return self._ended(decode_plain(encode_result(value).encode()), None, None, has_result=True)
        except _OURS:
            raise
        except (ResultInvalid, ResultTooLarge) as refused:
            kind = "result_invalid" if isinstance(refused, ResultInvalid) else "result_too_large"
            return self._ended(None, failure_of(fact(kind, type(refused).__name__, str(refused))), refused)
        except BaseException as error:  # noqa: BLE001 - success needs a returned value, as in a worker
            listener.progress.flush()
            is_stop = listener.is_end_by_stop(error)
            failure = None if is_stop else failure_of(describe_trusted(error, "exception"))
            return self._ended(None, failure, error)

    def _await(self, listener: Listener, coroutine: Coroutine[Any, Any, Any]) -> Any:
        self._run = run = AsyncRun(listener, lambda: None)
        try:
            return run.finish(coroutine)
        finally:
            run.close()

    def _ended(
        self,
        result: Any,
        failure: Failure | None,
        error: BaseException | None,
        *,
        has_result: bool = False,
    ) -> Rehearsal:
        """A complete result, then a stop that was asked, then the failure: the order in which a supervisor judges."""
        script = self._script
        script.settle()
        status = "succeeded" if has_result else "stopped" if script.is_stop_asked else "failed"
        return Rehearsal(
            status=status,
            result=result,
            failure=failure,
            error=error,
            moments=tuple(script.moments),
            log=tuple(script.lines()),
            heard_stop=Up.STOPPING in script.answers,
            pauses=script.answers.count(Up.PAUSED),
        )


def run_task(
    definition: Definition,
    *,
    params: Mapping[str, Any] | None = None,
    key: str | None = None,
    last_checkpoint: Any = None,
    attempt: int = 1,
    stop_at: At = None,
    pause_at: At = None,
    while_paused: Callable[[], object] | None = None,
) -> Rehearsal:
    """Run one attempt of a task here and now, and say how it would have ended.

    stop_at, pause_at: the moment at which the task is told so: a number, counted from 1 over checkpoints, sleeps and
    looks at `stop_requested`, or a function that is asked at each `Moment`. A pause ends by itself, after a call of
    `while_paused`. Raises ValueError for parameters or a `last_checkpoint` that are no JSON, RuntimeError outside of
    the main thread or inside of a running event loop, where a task could not run either.
    """
    if not isinstance(definition, Definition):
        raise TypeError(f"run_task: expected a function under @task, got {type(definition).__name__}")
    if current_thread() is not main_thread():
        raise RuntimeError(f"run_task: expected the main thread, where tasks run, got {current_thread().name}")
    if asyncio._get_running_loop() is not None:  # noqa: SLF001 - the public one raises where there is none
        raise RuntimeError("run_task: expected no running event loop, a task has its own; call it from a plain test")
    timeout = definition.options.timeout
    task: dict[str, Any] = {"id": new_id(), "name": definition.name, "key": key, "bucket": None, "attempt": attempt}
    task["deadline"] = None if timeout is None else time() + timeout
    return Stage(definition, Script(stop_at, pause_at, while_paused), task).play(params or {}, last_checkpoint)
