"""The run of one task in its worker: ready, go, started, user code, one verdict frame, the end.

Tasks replace functions, such as `os.getpid` or `json.dumps`, for tests or by a library. What is called while or after
their code runs is therefore imported by its own name here and in the files that serve a run, or is an object's own.
"""

import inspect
import sys
import traceback
from atexit import _run_exitfuncs
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from os import _exit, getpid
from signal import SIG_SETMASK, SIGURG, pthread_sigmask, siginterrupt, signal
from threading import Thread
from types import MappingProxyType
from typing import Any, NoReturn

from chong.worker.channel import Channel
from chong.worker.context import TaskContext
from chong.worker.conversion import Unfit
from chong.worker.definition import Definition
from chong.worker.failure import Facts, describe, fact, shorten
from chong.worker.listener import Listener
from chong.worker.plain import decode_plain, encode_plain
from chong.worker.progress import Progress
from chong.worker.result import ResultInvalid, ResultTooLarge, encode_result
from chong.worker.retrying import asked_by
from chong.worker.runfile import read_file, write_file
from chong.worker.threads import end_threads
from chong.worker.usercode import run_user_code
from chong.worker.wire import CHANNEL_FD, INLINE_LIMIT, Up

Obstacle = Facts | BaseException | None
"""Why the task cannot run: a condition that could not be met, or what the import of its module raised."""


def run_task(
    definitions: Mapping[str, Definition],
    run_dir: str,
    obstacle: Obstacle,
    elders: frozenset[Thread] = frozenset(),
    its_builtins: Mapping[str, Any] = MappingProxyType({}),
) -> NoReturn:
    """The rest of a worker's life; it never returns into the forkserver's code.

    elders: threads that the task's module has started, which nobody waits for at the end. its_builtins: those that the
    module has replaced, for its task alone.
    """
    channel = Channel(CHANNEL_FD)
    signal(SIGURG, channel.note)
    siginterrupt(SIGURG, False)
    pthread_sigmask(SIG_SETMASK, ())
    go = _wait_for_go(channel)
    _Run(channel, go | {"run_dir": run_dir}, elders, its_builtins).live(definitions, obstacle)


def _wait_for_go(channel: Channel) -> dict[str, Any]:
    channel.send(Up.READY)
    while True:
        channel.read()
        if channel.closed or channel.stop is not None:
            _exit(0)  # given up before it began; without `started` that is proof
        if channel.go is not None:
            return channel.go
        channel.wait(None)


class _Run:
    def __init__(
        self, channel: Channel, go: dict[str, Any], elders: frozenset[Thread], its_builtins: Mapping[str, Any]
    ) -> None:
        self._channel = channel
        self._go = go
        self._its_builtins = its_builtins
        self._process = getpid()
        self._streams = (sys.stdout, sys.stderr)  # those of the log; the task may put others in their places
        self._listener: Listener
        self._retry: dict[str, Any] = {}
        self._end_threads: Callable[[], None] = partial(end_threads, elders)

    def live(self, definitions: Mapping[str, Definition], obstacle: Obstacle) -> NoReturn:
        if not self._channel.send(Up.STARTED):
            _exit(0)
        if isinstance(obstacle, BaseException):
            obstacle = describe(obstacle, "import_error", self._fail_at_once)
        if obstacle is not None:
            self._fail(obstacle)
        try:
            prepared = self._prepare(definitions)
        except Exception as error:  # noqa: BLE001 -- what came from above is no reason to die silently
            self._fail(describe(error, "protocol", self._fail_at_once))
        if isinstance(prepared, dict):
            self._fail(prepared)
        self._perform(*prepared)

    def _prepare(self, definitions: Mapping[str, Definition]) -> Facts | tuple[Definition, Callable[[], Any]]:
        name = self._go["task"]["name"]
        definition = definitions.get(name)
        if definition is None:
            return fact("import_error", "UnknownTask", f"task {name!r}: expected one that was imported, got none")
        params = self._value("params") or {}
        self._listener = Listener(self._channel, Progress(self._channel, self._go["run_dir"]))
        context = TaskContext(self._listener, self._go, params, self._value("last_checkpoint"))
        arguments = (context,) if definition.wants_context else ()
        if (mismatch := _mismatch(definition, arguments, params)) is not None:
            self._retry = {"retry": definition.is_retried_after(TypeError)}
            return fact("exception", "TypeError", mismatch)
        return definition, partial(_call, definition, arguments, params)

    def _value(self, name: str) -> Any:
        """What `go` carries, or what lies in the file that it names."""
        path = self._go.get(f"{name}_file")
        if path is None:
            return self._go.get(name)
        # That of an earlier attempt is a whole path.
        return decode_plain(read_file(path if path.startswith("/") else f"{self._go['run_dir']}/{path}"))

    def _perform(self, definition: Definition, call: Callable[[], Any]) -> NoReturn:
        value: Any = None
        error: BaseException | None = None
        text = ""
        try:
            if definition.options.interruptible:
                self._listener.interrupt_on_term()
            value, error = run_user_code(call, self._its_builtins)
            if error is None and isinstance(value, Coroutine):
                value, error = run_user_code(partial(self._await, value), self._its_builtins)
            self._leave_if_forked()
            self._listener.close()
            if error is None:
                text = encode_result(value)
        except (ResultInvalid, ResultTooLarge) as refused:
            kind = "result_invalid" if isinstance(refused, ResultInvalid) else "result_too_large"
            self._fail(fact(kind, type(refused).__name__, str(refused)))
        except BaseException as raised:  # noqa: BLE001 -- success needs a returned value; what the task raised counts
            error = raised if error is None else error
            self._leave_if_forked()
            self._listener.close()
        if error is not None:
            self._end_without_value(definition, error)
        self._succeed(text)

    def _await(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """What it comes to."""
        from chong.worker.asyncrun import AsyncRun  # noqa: PLC0415 -- plain tasks need no event loop

        run = AsyncRun(self._listener, self._end_threads)
        self._end_threads = run.close
        return run.finish(coroutine)

    def _leave_if_forked(self) -> None:
        """The task forked and its child came back here: only the worker itself speaks for the run."""
        if getpid() != self._process:
            self._flush()
            _exit(0)

    def _end_without_value(self, definition: Definition, error: BaseException) -> NoReturn:
        if self._listener.is_end_by_stop(error):
            self._leave(0)
        self._retry = asked_by(error) or {"retry": definition.is_retried_after(type(error))}
        self._fail(describe(error, "exception", self._fail_at_once))

    def _succeed(self, text: str) -> NoReturn:
        try:
            self._tell(Up.RESULT, "value", "result.json", text)
        except BaseException as error:  # noqa: BLE001 -- the disk refuses it, or an audit hook of the task's
            self._fail(describe(error, "exception", self._fail_at_once))
        self._leave(0)

    def _fail(self, facts: Facts) -> NoReturn:
        with suppress(BaseException):  # the log is a convenience, and the task may have closed it
            self._streams[1].write(f"{facts['traceback'] or facts['message']}\n")
        self._tell_failure(facts)
        self._leave(1)

    def _fail_at_once(self, facts: Facts) -> NoReturn:
        """Out of a signal handler, over code that does not let go: no teardown."""
        self._tell_failure(facts)
        _exit(1)

    def _tell_failure(self, facts: Facts) -> None:
        try:
            self._tell(Up.FAILURE, "failure", "failure.json", encode_plain(facts | self._retry))
        except BaseException:  # noqa: BLE001 -- there is no file to be had: what fits the frame is told
            cut = facts | self._retry | {"traceback": shorten(facts["traceback"], INLINE_LIMIT // 8)}
            self._channel.send(Up.FAILURE, {"failure": encode_plain(cut)})

    def _tell(self, kind: Up, field: str, name: str, text: str) -> None:
        data = text.encode()
        if len(data) <= INLINE_LIMIT:
            self._channel.send(kind, {field: text})
            return
        write_file(f"{self._go['run_dir']}/{name}", data)
        self._channel.send(kind, {"file": encode_plain(name), "bytes": str(len(data))})

    def _leave(self, code: int) -> NoReturn:
        """As an interpreter would, but for the finalisation of what the forkserver shares."""
        _, error = run_user_code(self._end_what_is_left)
        if error is not None:  # the verdict is out
            with suppress(BaseException):
                traceback.print_exception(error, file=self._streams[1])
        self._flush()
        _exit(code)

    def _end_what_is_left(self) -> None:
        try:
            self._end_threads()
        finally:
            _run_exitfuncs()

    def _flush(self) -> None:
        for stream in (getattr(sys, "stdout", None), getattr(sys, "stderr", None), *self._streams):
            with suppress(BaseException):
                stream.flush()  # type: ignore[union-attr]


def _call(definition: Definition, arguments: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """The conversion is user code, too: classes of the module's have their own say."""
    try:
        converted = definition.conversion.convert(params)
    except Unfit as error:
        raise TypeError(f"task {definition.name!r}: {error}") from None
    return definition.function(*arguments, **converted)


def _mismatch(definition: Definition, arguments: tuple[Any, ...], params: Any) -> str | None:
    if not isinstance(params, dict):
        return f"task {definition.name!r}: expected parameters by name, got {type(params).__name__}"
    signature = inspect.signature(definition.function)
    try:
        signature.bind(*arguments, **params)
    except TypeError as error:
        return f"task {definition.name!r}: {error}; expected {signature}"
    return None
