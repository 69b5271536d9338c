"""Task ids: UUID version 7 (RFC 9562), so that ids sort by creation time."""

import os
import time
import uuid


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
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
