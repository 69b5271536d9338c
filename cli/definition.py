"""The options of a task definition, in the words in which its author would write them."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from chong.store.model import CatalogueEntry
from chong.store.view import as_json
from chong.worker.options import Options
from chong.worker.schedules import timing_from_json

_DEFAULTS: dict[str, Any] = as_json(asdict(Options())) | {"env": []}
"""As the store shows them: of `env` the names alone."""

_SECONDS = frozenset({"timeout", "stop_grace", "kill_grace", "start_timeout", "every"})
_BYTES = frozenset({"memory", "log_max"})
_BESIDE = frozenset({"parameters", "exec", "unchecked", "key_count"})
"""What the catalogue says of a definition that is no option of it."""

_UNITS_OF_TIME = (("d", 86_400), ("h", 3600), ("m", 60))
_UNITS_OF_SIZE = (("T", 1024**4), ("G", 1024**3), ("M", 1024**2), ("K", 1024))


def options_text(options: Mapping[str, Any]) -> str:
    """Those that are not the default; last, that its runs are not forked, and parameters that are not checked."""
    chosen = sorted(name for name in options if name not in _BESIDE and options[name] != _DEFAULTS.get(name))
    said = [_option(name, options[name]) for name in chosen]
    if options.get("exec"):
        said.append("(not forked: its module leaves threads or replaces functions)")
    if unchecked := options.get("unchecked"):
        said.append(f"(not checked: {', '.join(map(str, unchecked))})")
    return " ".join(said)


def error_text(entry: CatalogueEntry) -> str | None:
    """What is wrong with it, after what that costs: all of a module, one task, or only a part of what a task says."""
    if entry.error is None or not entry.module:  # without a module it is a hold of what nothing defines
        return entry.error
    if entry.name.startswith("("):
        return f"not imported: {entry.error}"
    return f"served, but {entry.error}" if entry.options else f"not served: {entry.error}"


def memory_limit_text(options: Mapping[str, Any]) -> str | None:
    """How much memory a run of the definition may have, "256MiB"; None without a limit."""
    size = options.get("memory")
    if not isinstance(size, int):
        return None
    text = _size(size)
    return f"{text}iB" if text[-1].isalpha() else f"{text} bytes"


def _option(name: str, value: object) -> str:
    if isinstance(value, bool):
        return name if value else f"no {name}"
    return f"{name}={_value(name, value)}"


def _value(name: str, value: object) -> str:
    if value is None:
        return "none"
    if name in _SECONDS and isinstance(value, int | float):
        return _time(value)
    if name in _BYTES and isinstance(value, int):
        return _size(value)
    if name == "umask" and isinstance(value, int):
        return f"0o{value:03o}"
    if name == "schedule" and isinstance(value, list | tuple):
        return "; ".join(timing_from_json(timing).text for timing in value if isinstance(timing, Mapping))
    if isinstance(value, Mapping):
        return ",".join(f"{part}:{_value(part, number)}" for part, number in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _time(seconds: float) -> str:
    """Exactly, unlike a length of time that has passed: "1h30m", "0.5s"."""
    text = ""
    for unit, length in _UNITS_OF_TIME:
        count, seconds = divmod(seconds, length)
        text += f"{count:g}{unit}" if count else ""
    return f"{text}{seconds:g}s" if seconds or not text else text


def _size(size: int) -> str:
    """Exactly: in the largest unit that divides it."""
    found = ((unit, size // length) for unit, length in _UNITS_OF_SIZE if size and size % length == 0)
    unit, count = next(found, ("", size))
    return f"{count}{unit}"
