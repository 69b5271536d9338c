"""Task ids: UUID version 7 (RFC 9562), so that ids sort by creation time."""

import os
import re
import time
import uuid

SHOWN = 60
"""Characters that an error quotes of a text that should have been an id."""
_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PART = re.compile("[0-9a-f-]{0,36}")


def new_id() -> str:
    """48 bits of Unix milliseconds, then random bits; version 7, variant 1."""
    return id_at(time.time_ns() // 1_000_000, os.urandom(10))


def id_at(milliseconds: int, rest: bytes) -> str:
    """The id of that Unix time; the ten bytes of `rest` tell it from others of the same one."""
    value = (milliseconds << 80) | int.from_bytes(rest, "big")
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    value = (value & ~(0x3 << 62)) | (0x2 << 62)
    return str(uuid.UUID(int=value))


def is_id(text: str) -> bool:
    """Whether `text` is a whole id in its canonical, lower-case form."""
    return _ID.fullmatch(text) is not None


def is_part_of_id(text: str) -> bool:
    """Whether an id could begin or end with `text`."""
    return _PART.fullmatch(text) is not None
