"""Facts about the machine that a term records."""

import socket
from pathlib import Path


def boot_id() -> str:
    """Random, new at each boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def host_name() -> str:
    return socket.gethostname()
