"""Lengths of time as people write them: 30, "30s", "10m", "1h30m", "90d"."""

import math
import re
from datetime import timedelta

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+\Z")


def parse_duration(value: float | str | timedelta) -> float:
    """Seconds; ValueError says what was expected and what was got."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str):
        seconds = _parse_text(value.strip())
    elif isinstance(value, bool):
        raise ValueError(f"expected a length of time, got {value}")
    else:
        seconds = float(value)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"expected a length of time of at least 0, got {value!r}")
    return seconds


def _parse_text(text: str) -> float:
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return float(text)
    if not _WHOLE.match(text):
        raise ValueError(f'expected a length of time like 30, "30s", "10m" or "1h30m", got {text[:40]!r}')
    return sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))
