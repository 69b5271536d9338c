"""What a task author declares: `@task` turns a function into a `Definition`."""

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from chong.worker.duration import parse_duration

NAME_LIMIT = 200
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*\Z")

Duration = float | str | timedelta


class DefinitionError(Exception):
    """A task is declared wrongly; the text names the task, what was expected and what was got."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a task's runs are managed. Lengths of time are in seconds; None means no limit.

    timeout: running time, pauses not counted, after which a run is ended as `failed`.
    stop_grace: how long a stop waits for a checkpoint before it sends SIGTERM.
    kill_grace: how long after SIGTERM it waits before SIGKILL.
    start_timeout: how long a worker may take from its fork to its first line of user code.
    retries: further attempts after the first.
    max_parallel: runs of this task at one time on a node.
    priority: higher starts first within its bucket.
    interruptible: SIGTERM raises in the main thread, even inside a blocking call.
    """

    timeout: float | None = None
    stop_grace: float = 10.0
    kill_grace: float = 5.0
    start_timeout: float = 30.0
    retries: int = 0
    max_parallel: int | None = None
    priority: int = 0
    tags: tuple[str, ...] = ()
    interruptible: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """A task's name, its options and its function; calling it calls the function."""

    name: str
    options: Options
    function: Callable[..., Any]

    @property
    def module(self) -> str:
        return self.function.__module__

    @property
    def wants_context(self) -> bool:
        """Whether the function takes the context as its first argument."""
        return bool(inspect.signature(self.function).parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def task(
    name: str,
    *,
    timeout: Duration | None = None,
    stop_grace: Duration = 10.0,
    kill_grace: Duration = 5.0,
    start_timeout: Duration = 30.0,
    retries: int = 0,
    max_parallel: int | None = None,
    priority: int = 0,
    tags: Iterable[str] = (),
    interruptible: bool = False,
) -> Callable[[Callable[..., Any]], Definition]:
    """Declare a function as the task `name`; `Options` says what each option means.

    The function takes a `TaskContext` first, then the parameters by name, and returns a JSON value.
    Raises `DefinitionError` at once when something is out of range.
    """
    _check_name(name)
    options = Options(
        timeout=None if timeout is None else _seconds(name, "timeout", timeout, above_zero=True),
        stop_grace=_seconds(name, "stop_grace", stop_grace),
        kill_grace=_seconds(name, "kill_grace", kill_grace),
        start_timeout=_seconds(name, "start_timeout", start_timeout, above_zero=True),
        retries=_whole(name, "retries", retries, least=0),
        max_parallel=None if max_parallel is None else _whole(name, "max_parallel", max_parallel, least=1),
        priority=_whole(name, "priority", priority),
        tags=_tags(name, tags),
        interruptible=interruptible,
    )

    def declare(function: Callable[..., Any]) -> Definition:
        if inspect.iscoroutinefunction(function):
            raise DefinitionError(f"task {name!r}: expected a plain function, got an async one")
        if not callable(function):
            raise DefinitionError(f"task {name!r}: expected a function, got {type(function).__name__}")
        return Definition(name, options, function)

    return declare


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not _NAME.match(name) or len(name) > NAME_LIMIT:
        raise DefinitionError(
            f"task name: expected 1 to {NAME_LIMIT} letters, digits or one of _ . : -, got {str(name)[:60]!r}"
        )


def _seconds(name: str, option: str, value: Duration, *, above_zero: bool = False) -> float:
    try:
        seconds = parse_duration(value)
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"task {name!r}: {option}: {error}") from None
    if above_zero and seconds == 0:
        raise DefinitionError(f"task {name!r}: {option}: expected more than 0, got {value!r}")
    return seconds


def _whole(name: str, option: str, value: int, *, least: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        bound = "" if least is None else f" of at least {least}"
        raise DefinitionError(f"task {name!r}: {option}: expected a whole number{bound}, got {value!r}")
    return value


def _tags(name: str, tags: Iterable[str]) -> tuple[str, ...]:
    if isinstance(tags, str):
        raise DefinitionError(f"task {name!r}: tags: expected a set of strings, got the string {tags!r}")
    found = tuple(sorted(set(tags)))
    for tag in found:
        if not isinstance(tag, str) or not tag or len(tag) > NAME_LIMIT or not tag.isprintable():
            raise DefinitionError(f"task {name!r}: tags: expected printable strings, got {tag!r}")
    return found
