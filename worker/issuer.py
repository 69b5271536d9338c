"""Who asks, when nobody says so: the user of this process, at this machine."""

import getpass
import os
import socket


def default_issuer() -> str:
    """USER@HOST."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid{os.getuid()}"
    return f"{user}@{socket.gethostname()}"
