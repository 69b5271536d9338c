"""The options of a task's definition: their meaning, their defaults, and the reading of what an author wrote."""

import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from chong.worker.duration import parse_duration
from chong.worker.nearest import nearest
from chong.worker.schedules import Timing, read_interval, read_schedule, timing_from_json
from chong.worker.size import parse_size

NAME_LIMIT = 200
KEY_LIMIT = 500
ENV_LIMIT = 8192
CALL_LIMIT = 1000
TAGS_LIMIT = 100
KEYS_LIMIT = 100_000
FAILURES_LIMIT = 50
LOG_MAX = 16 * 1024 * 1024
LEAST_LOG = 64 * 1024
MISFIRES = ("once", "skip", "all")
"""What becomes of the instants that a schedule has missed."""
OVERLAPS = ("skip", "queue")
"""What becomes of an instant while the task of an earlier one is open."""
MISFIRE_LIMIT = 100
MISFIRES_LIMIT = 10_000
RETRY_KINDS = ("exception", "timeout", "crashed", "start_timeout")
"""The kinds of failure that a further attempt may mend."""

Duration = float | str | timedelta


class DefinitionError(Exception):
    """A task is declared wrongly; the text names the task, what was expected and what was got."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The wait before a further attempt: `first` seconds, times `factor` for each one more, `most` at most.

    jitter: the share by which a wait is then made longer or shorter, so that what failed together does not return
    together.
    """

    first: float = 1.0
    factor: float = 2.0
    most: float = 300.0
    jitter: float = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a task's runs are managed. Lengths of time are in seconds, sizes in bytes; None means no limit.

    timeout: running time, pauses not counted, after which a run is ended as `failed`.
    stop_grace: how long a stop waits for a checkpoint before it sends SIGTERM.
    kill_grace: how long after SIGTERM it waits before SIGKILL.
    start_timeout: how long a worker may take from its fork to its first line of user code.
    retries: further attempts after the first; backoff: how long each of them waits.
    retry_on: kinds of failure and names of exceptions that are retried, None for all that can be.
    no_retry_on: those that are not; it wins.
    max_parallel: runs of this task at one time on a node; max_parallel_per_key: for each key.
    priority: higher starts first within its bucket.
    nice: how much the run yields to others, 0 to 19. memory: how much of it a run may have.
    user: whom the run belongs to; None for the supervisor's user. cwd, umask: None for the supervisor's.
    env: variables beside those that every run has.
    log_max: how much of the newest output is kept, per attempt.
    interruptible: SIGTERM raises in the main thread, even inside a blocking call.
    fork_safe: the module's threads bear a fork; else a module with threads runs in a process of its own making.
    every: run it at each multiple of this time since the epoch; schedule: at the instants of these.
    keys: once for each of these. calls_keys: a function of its module tells them.
    misfire: what becomes of instants that came while nobody could fire them: the newest fires, none, or each.
    overlap: whether an instant is skipped while the task of an earlier one is open, or waits for its end.
    misfire_limit: so many instants of a key may wait, of those that were missed and of those that overlap.
    on_failure: the command, or the web address, that is told when a task has failed or is lost.
    on_failure_every: it is told at most once in so long; what came meanwhile is told together.
    """

    timeout: float | None = None
    stop_grace: float = 10.0
    kill_grace: float = 5.0
    start_timeout: float = 30.0
    retries: int = 0
    backoff: Backoff = Backoff()
    retry_on: tuple[str, ...] | None = None
    no_retry_on: tuple[str, ...] = ()
    max_parallel: int | None = None
    max_parallel_per_key: int | None = None
    priority: int = 0
    tags: tuple[str, ...] = ()
    nice: int = 0
    memory: int | None = None
    user: str | None = None
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    umask: int | None = None
    log_max: int = LOG_MAX
    interruptible: bool = False
    fork_safe: bool = False
    every: float | None = None
    schedule: tuple[Timing, ...] = ()
    keys: tuple[str, ...] = ()
    calls_keys: bool = False
    misfire: str = "once"
    overlap: str = "skip"
    misfire_limit: int = MISFIRE_LIMIT
    on_failure: str | None = None
    on_failure_every: float = 300.0

    @property
    def timings(self) -> tuple[Timing, ...]:
        """When it runs by itself: `every` and `schedule` together."""
        short = () if self.every is None else (Timing(every=self.every),)
        return tuple(dict.fromkeys(short + self.schedule))


def read_options(name: str, given: Mapping[str, Any]) -> Options:
    """Options as an author wrote them; DefinitionError names the task and the option."""
    read: dict[str, Any] = {}
    for option, value in given.items():
        try:
            read[option] = (
                _READERS[option](value) if value is not None or option not in _OPTIONAL else _NOTHING.get(option)
            )
        except (TypeError, ValueError) as error:
            raise DefinitionError(f"task {name!r}: {option}: {error}") from None
    if (read.get("keys") or read.get("calls_keys")) and not (read.get("every") or read.get("schedule")):
        raise DefinitionError(f"task {name!r}: keys: expected them beside every or schedule, got keys alone")
    return Options(**read)


def options_from_json(content: dict[str, object]) -> Options:
    """Options out of JSON; what this version does not know is left out, what is missing has its default."""
    known: dict[str, Any] = {name: value for name, value in content.items() if name in Options.__dataclass_fields__}
    if "backoff" in known:
        known["backoff"] = _backoff_from_json(known["backoff"])
    if "schedule" in known:
        known["schedule"] = [timing_from_json(timing) for timing in known["schedule"]]
    lists = {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
    return Options(**known | lists)


def _backoff_from_json(content: Any) -> Backoff:
    if not isinstance(content, dict):
        return Backoff()
    return Backoff(**{name: value for name, value in content.items() if name in Backoff.__dataclass_fields__})


def name_of(error: type[BaseException]) -> str:
    """An exception's name as failures give it as their cause."""
    name = error.__qualname__ if error.__module__ == "builtins" else f"{error.__module__}.{error.__qualname__}"
    return name[:NAME_LIMIT]


def _above_zero(value: Duration) -> float:
    seconds = parse_duration(value)
    if seconds == 0:
        raise ValueError(f"expected more than 0, got {value!r}")
    return seconds


def _whole(least: int | None = None, most: int | None = None) -> Callable[[Any], int]:
    bounds = "" if least is None else f" of at least {least}" if most is None else f" from {least} to {most}"

    def read(value: Any) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or (least is not None and value < least) or (most is not None and value > most):
            raise ValueError(f"expected a whole number{bounds}, got {value!r}")
        return int(value)

    return read


def _size(least: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        size = parse_size(value)
        if size < least:
            raise ValueError(f"expected at least {least} bytes, got {value!r}")
        return size

    return read


def _one_of(choices: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in choices:
            near = nearest(str(value), choices)
            hint = f", did you mean {near!r}?" if near else ""
            raise ValueError(f"expected {' or '.join(map(repr, choices))}, got {value!r}{hint}")
        return str(value)

    return read


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected True or False, got {value!r}")
    return value


def _backoff(value: Any) -> Backoff:
    if not isinstance(value, Backoff):
        first = parse_duration(value)
        return Backoff(first=first, most=max(first, Backoff().most))
    first, most = parse_duration(value.first), parse_duration(value.most)
    if not (1 <= value.factor < math.inf and 0 <= value.jitter < 1 and first <= most):
        raise ValueError(f"expected first <= most, factor >= 1 and jitter from 0 to below 1, got {value!r}")
    return Backoff(first=first, factor=float(value.factor), most=most, jitter=float(value.jitter))


def _failures(value: Any) -> tuple[str, ...]:
    """Kinds by name and exceptions by class, as names."""
    if isinstance(value, str | type):
        raise ValueError(f"expected a list of {', '.join(RETRY_KINDS)} or exception classes, got {value!r}")
    found = tuple(_failure(item) for item in value)
    if len(found) > FAILURES_LIMIT:
        raise ValueError(f"expected at most {FAILURES_LIMIT}, got {len(found)}")
    return found


def _failure(item: Any) -> str:
    if isinstance(item, type) and issubclass(item, BaseException):
        return name_of(item)
    if item in RETRY_KINDS:
        return str(item)
    raise ValueError(f"expected {', '.join(RETRY_KINDS)} or an exception class, got {item!r}")


def _texts(limit: int, most: int) -> Callable[[Any], tuple[str, ...]]:
    def read(value: Iterable[str]) -> tuple[str, ...]:
        if isinstance(value, str):
            raise ValueError(f"expected a set of strings, got the string {value!r}")
        found = tuple(sorted(set(value)))
        if len(found) > most:
            raise ValueError(f"expected at most {most}, got {len(found)}")
        for text in found:
            if not isinstance(text, str) or not 1 <= len(text) <= limit or not text.isprintable():
                raise ValueError(f"expected printable strings of 1 to {limit} characters, got {text!r}")
        return found

    return read


def _word(value: Any) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError(f"expected a name, got {value!r}")
    return value


def _directory(value: Any) -> str:
    path = str(value)
    if not path.startswith("/") or "\0" in path:
        raise ValueError(f"expected an absolute path, got {path!r}")
    return path


def _env(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError(f"expected a mapping of names to texts, got {value!r}")
    for name, text in value.items():
        if not isinstance(name, str) or not re.match(r"[A-Za-z_][A-Za-z0-9_]*\Z", name) or name.startswith("CHONG_"):
            raise ValueError(f"expected names of letters, digits and _, none with CHONG_, got {name!r}")
        if not isinstance(text, str) or "\0" in text:
            raise ValueError(f"expected texts without NUL, got {text!r} for {name}")
    if (size := sum(len(name) + len(text) for name, text in value.items())) > ENV_LIMIT:
        raise ValueError(f"expected at most {ENV_LIMIT} characters in all, got {size}")
    return dict(value)


def _call(value: Any) -> str:
    """A command's words as a shell would cut them, or an address; what can only fail is refused here."""
    if not isinstance(value, str) or not 1 <= len(value) <= CALL_LIMIT or not value.isprintable():
        raise ValueError(f"expected a command or a web address of 1 to {CALL_LIMIT} characters, got {value!r:.80}")
    if "://" in value.partition(" ")[0]:
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname or " " in value:
            raise ValueError(f"expected an address with http or https and a host, got {value!r:.80}")
        return value
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise ValueError(f"expected a command, got {value!r:.80}: {error}") from None
    if not words:
        raise ValueError(f"expected a command, got {value!r:.80}")
    return value


_OPTIONAL = frozenset(
    {
        "timeout",
        "retry_on",
        "max_parallel",
        "max_parallel_per_key",
        "memory",
        "user",
        "cwd",
        "umask",
        "every",
        "schedule",
        "on_failure",
    }
)

_NOTHING: Mapping[str, Any] = {"schedule": ()}
"""What None stands for; elsewhere it stays None."""

_READERS: Mapping[str, Callable[[Any], Any]] = {
    "timeout": _above_zero,
    "stop_grace": parse_duration,
    "kill_grace": parse_duration,
    "start_timeout": _above_zero,
    "retries": _whole(0),
    "backoff": _backoff,
    "retry_on": _failures,
    "no_retry_on": _failures,
    "max_parallel": _whole(1),
    "max_parallel_per_key": _whole(1),
    "priority": _whole(),
    "tags": _texts(NAME_LIMIT, TAGS_LIMIT),
    "nice": _whole(0, 19),
    "memory": _size(1024 * 1024),
    "user": _word,
    "cwd": _directory,
    "env": _env,
    "umask": _whole(0, 0o777),
    "log_max": _size(LEAST_LOG),
    "interruptible": _flag,
    "fork_safe": _flag,
    "every": read_interval,
    "schedule": read_schedule,
    "keys": _texts(KEY_LIMIT, KEYS_LIMIT),
    "calls_keys": _flag,
    "misfire": _one_of(MISFIRES),
    "overlap": _one_of(OVERLAPS),
    "misfire_limit": _whole(1, MISFIRES_LIMIT),
    "on_failure": _call,
    "on_failure_every": parse_duration,
}
