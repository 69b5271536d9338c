"""How the values of settings are written, in options, variables and chong.toml alike.

A text is read in the same way wherever it stands; TOML's numbers and lists are taken where they mean the same.
"""

import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from chong.supervisor.nearest import suggestion
from chong.worker.duration import parse_duration
from chong.worker.size import parse_size

_DAY = 86_400
_GIB = 1024**3
_HUGE = 10**15
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?\Z")
_WHOLE = re.compile(r"-?[0-9]{1,15}\Z")


class Kind(NamedTuple):
    """`read` takes a text, or what TOML made of a value; its ValueError says what was expected and what was got.

    `show` gives text that `read` reads back. `form`: how such a value is written, for the reference.
    """

    metavar: str
    form: str
    read: Callable[[object], Any]
    show: Callable[[Any], str] = str


def told(value: object) -> str:
    """A wrong value as an error line names it: short, and of a number too long to print only that."""
    match value:
        case str():
            return repr(value[:40])
        case bool():
            return str(value).lower()
        case int():
            return str(value) if abs(value) < _HUGE else "a huge number"
        case float():
            return f"{value:g}"
        case list() | tuple():
            return "a list"
        case dict():
            return "a table"
        case _:
            return f"a {type(value).__name__}"


def _read_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {told(value)}")
    if not value or "\0" in value:
        raise ValueError(f"expected text, got {'one with a NUL character' if value else 'nothing'}")
    return value


def _read_store(value: object) -> str:
    from chong.store.address import split_scheme  # noqa: PLC0415 - `chong --help` loads no store

    address = _read_text(value)
    split_scheme(address)
    return address


def _read_path(value: object) -> Path:
    try:
        return Path(_read_text(value)).expanduser()
    except RuntimeError:  # ~somebody whom this machine does not know
        raise ValueError(f"expected a path, got {told(value)}, whose user has no home") from None


def _read_whole(value: object) -> int:
    if isinstance(value, str) and _WHOLE.match(value):
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= _HUGE:
        raise ValueError(f"expected a whole number, got {told(value)}")
    return value


def _read_count(value: object) -> int | None:
    return None if value == "never" else _read_whole(value)


def _read_seconds(value: object) -> float:
    if not isinstance(value, str | int | float):
        raise ValueError(f'expected a length of time like 30, "30s" or "10m", got {told(value)}')
    try:
        return parse_duration(value)
    except OverflowError:
        raise ValueError("expected a length of time, got a huge number") from None


def _measured(value: object, form: str, endless: str, read: Callable[[str], float], unit: int) -> float | None:
    """A number of `unit`, or what `read` makes of a text, in `unit`; None for the word `endless`."""
    if value == endless:
        return None
    if isinstance(value, str) and _NUMBER.match(value):
        return float(value)
    try:
        if isinstance(value, str):
            amount = read(value) / unit
        elif isinstance(value, int | float) and not isinstance(value, bool):
            amount = float(value)
        else:
            raise ValueError(value)
    except (ValueError, OverflowError):
        raise ValueError(f"expected {form}, got {told(value)}") from None
    return amount


def _read_days(value: object) -> float | None:
    return _measured(value, DAYS.form, "forever", parse_duration, _DAY)


def _read_gib(value: object) -> float | None:
    return _measured(value, GIB.form, "unlimited", parse_size, _GIB)


def read_ranges(value: object) -> list[range]:
    """As the kind of buckets reads them, but not as a set."""
    from chong.store.buckets import parse_ranges  # noqa: PLC0415 - `chong --help` loads no store

    if not isinstance(value, str):
        raise ValueError(f'expected text like "0-15,20", got {told(value)}')
    return parse_ranges(value)


def _read_buckets(value: object) -> frozenset[int]:
    return frozenset(chain.from_iterable(read_ranges(value)))


def _show_buckets(value: frozenset[int]) -> str:
    from chong.store.buckets import format_buckets  # noqa: PLC0415

    return format_buckets(value)


def _read_names(value: object) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise ValueError(f'expected a list of names, or text like "a,b", got {told(value)}')
    return tuple(dict.fromkeys(name for item in items for name in re.split(r"[,\s]+", item) if name))


def choice(*words: str) -> Kind:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError(f"expected {', '.join(words)}, got {told(value)}{_guess(value, words)}")
        return str(value)

    return Kind(f"[{'|'.join(words)}]", ", ".join(words), read)


def _guess(value: object, words: tuple[str, ...]) -> str:
    guess = suggestion(str(value), words, "") if isinstance(value, str) else ""
    return f", {guess}" if guess else ""


TEXT = Kind("TEXT", "text", _read_text)
STORE = Kind("STORE", "a path, or an address: sqlite:////path, postgresql://user@host:5432/database", _read_store)
PATH = Kind("DIR", "a path", _read_path)
WHOLE = Kind("N", "a whole number", _read_whole)
COUNT = Kind("N", 'a whole number, or "never"', _read_count, lambda count: "never" if count is None else str(count))
SECONDS = Kind(
    "TIME", 'a length of time: seconds, or like "500ms", "30s", "10m", "1h30m"', _read_seconds, "{:.9g}s".format
)
DAYS = Kind(
    "TIME",
    'days, another length of time like "12h", or "forever"',
    _read_days,
    lambda days: "forever" if days is None else f"{days:.9g}d",
)
GIB = Kind(
    "SIZE",
    'GiB, another size like "512M", or "unlimited"',
    _read_gib,
    lambda size: "unlimited" if size is None else f"{size:.9g}G",
)
BUCKETS = Kind("LIST", "buckets and ranges of them, like 0-15,20", _read_buckets, _show_buckets)
NAMES = Kind("NAMES", "a list of names, or text with commas", _read_names, ",".join)
