"""Sizes as people write them: 4096, "512K", "64M", "2G"."""

import re

_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]?)(?:iB|B)?\Z")


def parse_size(value: int | str) -> int:
    """Bytes; units are powers of 1024. ValueError says what was expected and what was got."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = _SIZE.match(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'expected a size like 4096, "64M" or "2G", got {str(value)[:40]!r}')
    return int(float(match[1]) * _UNITS[match[2]])
