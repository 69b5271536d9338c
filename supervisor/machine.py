"""Facts about the machine that a term records."""

import hashlib
import re
import socket
from collections.abc import Iterable
from pathlib import Path

MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
"""Where an installation keeps its id; without systemd it may be in the second place alone."""

_ID = re.compile(r"[0-9a-f]{32}")


def boot_id() -> str:
    """Random, new at each boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def machine_id(files: Iterable[Path] = MACHINE_IDS) -> str:
    """The same over boots; empty where there is none, as in many containers.

    Hashed: machine-id(5) asks that the id itself does not leave its machine.
    """
    found = next(filter(None, map(_id_in, files)), "")
    return found and hashlib.sha256(f"chong {found}".encode()).hexdigest()[:32]


def _id_in(file: Path) -> str:
    try:
        text = file.read_text(encoding="ascii").strip().lower()
    except (OSError, ValueError):
        return ""  # nobody has to have one
    return text if _ID.fullmatch(text) else ""


def host_name() -> str:
    return socket.gethostname()
