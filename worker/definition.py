"""What a task author declares: `@task` turns a function into a `Definition`."""

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from chong.worker.conversion import Conversion
from chong.worker.options import (
    LOG_MAX,
    MISFIRE_LIMIT,
    NAME_LIMIT,
    Backoff,
    DefinitionError,
    Duration,
    Options,
    read_options,
)
from chong.worker.schedules import Written

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*\Z")

Failures = Iterable[str | type[BaseException]]
"""Kinds of failure by name, exceptions by class."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A task's name, its options and its function; calling it calls the function.

    retry_on, no_retry_on: the exception classes among the options of these names, None where no option was given.
    keys: the function that tells them, where one does.
    """

    name: str
    options: Options
    function: Callable[..., Any]
    retry_on: tuple[type[BaseException], ...] | None = None
    no_retry_on: tuple[type[BaseException], ...] = ()
    keys: Callable[[], Iterable[str]] | None = None
    _conversions: list[Conversion] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def conversion(self) -> Conversion:
        """What the annotations make of parameters; found once, by the forkserver, as each of its workers needs it.

        Not when it is declared: what the annotations name may be defined below it.
        """
        if not self._conversions:
            self._conversions.append(Conversion(self.function))
        return self._conversions[0]

    @property
    def module(self) -> str:
        return self.function.__module__

    @property
    def wants_context(self) -> bool:
        """Whether the function takes the context as its first argument."""
        return bool(inspect.signature(self.function).parameters)

    def is_retried_after(self, error: type[BaseException]) -> bool:
        """Whether the options let an exception of this class be followed by a further attempt.

        Classes are compared as `except` does it, past what a metaclass may say of its subclasses.
        """
        options = self.options
        if "exception" in options.no_retry_on or _is_caught(error, self.no_retry_on):
            return False
        return options.retry_on is None or "exception" in options.retry_on or _is_caught(error, self.retry_on or ())

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
    backoff: Duration | Backoff = Backoff(),  # noqa: B008 - frozen
    retry_on: Failures | None = None,
    no_retry_on: Failures = (),
    max_parallel: int | None = None,
    max_parallel_per_key: int | None = None,
    priority: int = 0,
    tags: Iterable[str] = (),
    nice: int = 0,
    memory: int | str | None = None,
    user: str | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    umask: int | None = None,
    log_max: int | str = LOG_MAX,
    interruptible: bool = False,
    fork_safe: bool = False,
    every: Duration | None = None,
    schedule: Written | None = None,
    keys: Iterable[str] | Callable[[], Iterable[str]] = (),
    misfire: str = "once",
    overlap: str = "skip",
    misfire_limit: int = MISFIRE_LIMIT,
    on_failure: str | None = None,
    on_failure_every: Duration = 300.0,
) -> Callable[[Callable[..., Any]], Definition]:
    """Declare a function, plain or async, as the task `name`; `Options` says what each option means.

    The function takes a `TaskContext` first, then the parameters by name, and returns a JSON value.
    Raises `DefinitionError` at once when something is out of range.
    """
    given = {option: value for option, value in locals().items() if option != "name"}
    _check_name(name)
    retry_on = None if retry_on is None else _listed(retry_on)
    no_retry_on = _listed(no_retry_on)
    teller = keys if callable(keys) else None
    if teller is not None:
        _check_teller(name, teller)
        given |= {"keys": (), "calls_keys": True}
    options = read_options(name, given | {"env": env or {}, "retry_on": retry_on, "no_retry_on": no_retry_on})

    def declare(function: Callable[..., Any]) -> Definition:
        if not callable(function):
            raise DefinitionError(f"task {name!r}: expected a function, got {type(function).__name__}")
        try:
            inspect.signature(function)
        except (TypeError, ValueError) as error:  # of some builtins nobody knows it
            raise DefinitionError(f"task {name!r}: expected a function with a signature: {error}") from None
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise DefinitionError(f"task {name!r}: expected a function that returns its result, got a generator")
        if inspect.iscoroutinefunction(function):
            import_module("chong.worker.asyncrun")  # once, in the forkserver, and not in each worker
        retried = None if retry_on is None else _classes(retry_on)
        return Definition(name, options, function, retried, _classes(no_retry_on), teller)

    return declare


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not _NAME.match(name) or len(name) > NAME_LIMIT:
        raise DefinitionError(
            f"task name: expected 1 to {NAME_LIMIT} letters, digits or one of _ . : -, got {str(name)[:60]!r}"
        )


def _check_teller(name: str, teller: Callable[..., Any]) -> None:
    """It is called without arguments, and not awaited."""
    if inspect.iscoroutinefunction(teller) or inspect.isasyncgenfunction(teller):
        raise DefinitionError(f"task {name!r}: keys: expected a plain function, got an async one")
    try:
        needed = [p.name for p in inspect.signature(teller).parameters.values() if _is_needed(p)]
    except (TypeError, ValueError):
        return  # of some builtins nobody knows it
    if needed:
        raise DefinitionError(
            f"task {name!r}: keys: expected a function that needs no arguments, got one that needs {', '.join(needed)}"
        )


def _is_needed(parameter: inspect.Parameter) -> bool:
    is_rest = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not is_rest


def _listed(failures: Any) -> Any:
    """An iterator is read only once; what is no list at all is refused with the option's name."""
    return tuple(failures) if isinstance(failures, Iterable) and not isinstance(failures, str | type) else failures


def _is_caught(error: type[BaseException], classes: tuple[type[BaseException], ...]) -> bool:
    return any(type.__subclasscheck__(each, error) for each in classes)


def _classes(failures: Failures) -> tuple[type[BaseException], ...]:
    return tuple(item for item in failures if isinstance(item, type))
