"""The import of one task module, and what became of it."""

import importlib
import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from os import _exit, getpid
from pathlib import Path
from time import sleep

from chong.worker.clock import monotonic
from chong.worker.definition import Definition
from chong.worker.entry import Entry, entry_of
from chong.worker.failure import cause_of, shorten
from chong.worker.originals import Originals
from chong.worker.place import place_of
from chong.worker.pristine import Pristine
from chong.worker.usercode import run_user_code
from chong.worker.watch import complain

ERROR_LIMIT = 500
PLACE_LIMIT = 250
TRACEBACK_LIMIT = 4096
THREADS_END = 0.1
"""Seconds for threads that are ending: one that was joined is counted for a moment longer."""


class Way(StrEnum):
    """How a module's tasks are run."""

    FORK = "fork"
    EXEC = "exec"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a module's import came to: its tasks in words and what it has done to the process, or an error in one line.

    replaced: names of functions that all rely on.
    """

    module: str
    tasks: tuple[Entry, ...] = ()
    threads: int = 1
    replaced: str = ""
    error: str = ""
    traceback: str = ""

    @property
    def is_clean(self) -> bool:
        return not (self.error or self.replaced) and self.threads == 1

    @property
    def way(self) -> Way:
        """Threads make a fork unsafe: their module is imported by each run anew, unless all its tasks bear it.

        So is one that replaces what others rely on, whatever its tasks bear.
        """
        if self.error:
            return Way.NONE
        if self.replaced:
            return Way.EXEC
        bears_forks = bool(self.tasks) and all(entry["options"]["fork_safe"] for entry in self.tasks)
        return Way.FORK if self.is_clean or bears_forks else Way.EXEC

    @classmethod
    def failed(cls, module: str, error: str, trace: str = "", place: str = "") -> "Trial":
        """`place`: where in the module's code, as far as that is known."""
        where = shorten(f" ({place})", PLACE_LIMIT) if place else ""
        told = shorten(error, ERROR_LIMIT - len(where.encode())) + where
        return cls(module=module, error=told, traceback=shorten(trace, TRACEBACK_LIMIT))

    @classmethod
    def raised(cls, module: str, error: BaseException) -> "Trial":
        text = _formed(lambda: " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split()))
        trace = _formed(lambda: "".join(traceback.format_exception(error)))
        told = f"{cause_of(error)}: {text}" if text else cause_of(error)
        return cls.failed(module, told, trace, _formed(lambda: place_of(error, module), ""))


def _formed(form: Callable[[], str], otherwise: str = "(its text could not be formed)") -> str:
    try:
        return form()
    except BaseException:  # noqa: BLE001 -- the exception's text is the module's code
        return otherwise


def load_module(name: str) -> tuple[list[Definition], BaseException | None]:
    """Import a module; its definitions, each once, or whatever the import raised, SystemExit too."""
    process = getpid()
    module, error = run_user_code(partial(importlib.import_module, name))
    if getpid() != process:
        _exit(0)  # it has forked, and its child came back here
    if error is not None:
        return [], error
    return list({id(item): item for item in vars(module).values() if type(item) is Definition}.values()), None


def try_module(name: str, pristine: Pristine, originals: Originals) -> tuple[Trial, list[Definition]]:
    """Import a module in this process, without a look at threads. Definitions stand in the order of the tasks."""
    complain(f"importing {name}")
    found, error = load_module(name)
    replaced = originals.replaced()
    try:
        trial = Trial(module=name, tasks=tuple(map(entry_of, found)), replaced=replaced)
    except BaseException as refused:  # noqa: BLE001 -- what a task says of itself is the module's code
        error = refused
    if error is not None:
        trial, found = Trial.raised(name, error), []
    elif replaced:
        complain(f"module {name} replaces {replaced}: its runs import it by themselves")
    pristine.restore()
    return trial, found


def read_trials(path: Path) -> dict[str, Trial]:
    """By module, out of a catalogue; OSError, ValueError or TypeError when it is none of this version."""
    known = (Trial(**item | {"tasks": tuple(item["tasks"])}) for item in json.loads(path.read_bytes())["trials"])
    return {trial.module: trial for trial in known}


def count_threads() -> int:
    """Of this process; those that are about to end have a moment for it."""
    end = monotonic() + THREADS_END
    while (threads := len(list(Path("/proc/self/task").iterdir()))) > 1 and monotonic() < end:
        sleep(0.005)
    return threads
