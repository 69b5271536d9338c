"""The functions that every task and the forkserver rely on, as they were before a task module was imported.

A module that replaces one would do so for the tasks of all modules, if workers were copies of the process that has
imported it.
"""

import json
import os
import pathlib
import select
import signal
import socket
import time
from typing import Any

from chong.worker.usercode import replaced_builtins

_HOMES: dict[str, Any] = {
    "os": os,
    "time": time,
    "json": json,
    "json.JSONEncoder": json.JSONEncoder,
    "json.JSONDecoder": json.JSONDecoder,
    "signal": signal,
    "select": select,
    "pathlib": pathlib,
    "pathlib.Path": pathlib.Path,
    "pathlib.PurePath": pathlib.PurePath,
    "socket.socket": socket.socket,
}
_INHERITED = object()
TOLD_LIMIT = 3


class Originals:
    """Taken before the imports. Of `socket` one class alone: libraries that watch connections wrap its functions."""

    def __init__(self) -> None:
        self._functions = [
            (f"{name}.{key}", home, key, vars(home).get(key, _INHERITED))
            for name, home in _HOMES.items()
            for key in dir(home)
            if callable(getattr(home, key))
        ]
        self._functions.append(("socket.socket", socket, "socket", socket.socket))

    def replaced(self) -> str:
        """The names of those that are not what they were, empty if there are none; all are put back."""
        found = [f"builtins.{name}" for name in replaced_builtins()]
        for name, home, key, value in self._functions:
            if vars(home).get(key, _INHERITED) is not value:
                found.append(name)
                _put(home, key, value)
        found.sort()
        more = f" and {len(found) - TOLD_LIMIT} more" if len(found) > TOLD_LIMIT else ""
        return ", ".join(found[:TOLD_LIMIT]) + more


def _put(home: Any, key: str, value: object) -> None:
    if value is _INHERITED:
        delattr(home, key)
    else:
        setattr(home, key, value)
