"""The task modules of one generation: what they define, how that is run, and what could not be imported."""

import signal
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import entry_points
from itertools import zip_longest
from pathlib import Path

from chong.worker.account import account_of
from chong.worker.clock import monotonic
from chong.worker.definition import Definition
from chong.worker.entry import Entry, where
from chong.worker.failure import shorten
from chong.worker.options import Options, options_from_json
from chong.worker.originals import Originals
from chong.worker.plain import encode_plain
from chong.worker.pristine import Pristine
from chong.worker.runfile import write_file
from chong.worker.trial import ERROR_LIMIT, Trial, Way, count_threads, read_trials, try_module
from chong.worker.watch import complain

GROUP = "chong.tasks"


@dataclass
class Catalogue:
    """definitions: those whose workers are forks of this process. homes: per task the module that was to be loaded."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)
    errors: list[dict[str, str | None]] = field(default_factory=list)
    _entries: dict[str, Entry] = field(default_factory=dict)
    _trials: list[Trial] = field(default_factory=list)

    def load(self, trials: Iterable[Trial], pristine: Pristine, limit: float) -> None:
        """Import the modules that bear a fork. Of two definitions of one name the first counts.

        limit: seconds for all; a module that hangs only now ends this process.
        """
        end = monotonic() + limit
        originals = Originals()
        for trial in trials:
            found: list[Definition] = []
            known = trial
            if trial.way is Way.FORK:
                _end_at(end)
                again, found = try_module(trial.module, pristine, originals)
                known = replace(again, threads=trial.threads)
                if known.way is not Way.FORK:
                    found = []
            self._trials.append(known)
            if known.error:
                self._blame(known.module, known.error, known.traceback)
            for entry, definition in zip_longest(known.tasks, found):
                self._add(known.module, entry, definition)
        self._check_threads()

    @property
    def executed(self) -> dict[str, str]:
        """The tasks whose worker has to import their module by itself, with that module."""
        return {name: module for name, module in self.homes.items() if name not in self.definitions}

    def write(self, path: str) -> None:
        """Tasks and errors for the supervisor, the trials for a forkserver that takes this one's place."""
        tasks = [entry | {"exec": name not in self.definitions} for name, entry in self._entries.items()]
        content = {"tasks": tasks, "errors": self.errors, "trials": list(map(asdict, self._trials))}
        write_file(path, encode_plain(content).encode("utf-8", "backslashreplace"))

    @property
    def options(self) -> dict[str, Options]:
        """Of every task, by name."""
        return {name: options_from_json(entry["options"]) for name, entry in self._entries.items()}

    def _add(self, module: str, entry: Entry, definition: Definition | None) -> None:
        name = entry["name"]
        if (user := entry["options"]["user"]) is not None:
            try:
                account_of(user)
            except ValueError as error:  # a task whose user this process cannot become is none of ours
                self._refuse(module, entry, str(error))
                return
        if fault := entry.get("fault"):
            self._refuse(module, entry, fault)
            return
        first = self._entries.setdefault(name, entry)
        if first is entry:
            self.homes[name] = module
            if definition is not None:
                self.definitions[name] = definition
        elif self.homes[name] == module or not self._is_known(entry, definition):
            self._refuse(module, entry, f"expected one definition of the name, that of {where(first)} stays")

    def _is_known(self, entry: Entry, definition: Definition | None) -> bool:
        """Whether it is the same task, which a module has imported from another one."""
        first = self.definitions.get(entry["name"])
        if first is not None and definition is not None:
            return first is definition
        return all(entry[key] == self._entries[entry["name"]][key] for key in ("module", "function"))

    def _refuse(self, module: str, entry: Entry, why: str) -> None:
        """One task; what else the module defines is served."""
        self._blame(module, shorten(f"{where(entry)} is refused: {why}", ERROR_LIMIT), "", task=entry["name"])

    def _blame(self, module: str, error: str, trace: str, task: str | None = None) -> None:
        self.errors.append({"module": module, "task": task, "error": error, "traceback": trace})

    def _check_threads(self) -> None:
        """More threads than those that were declared to bear it: then no fork may run code as it is."""
        expected = 1 + sum(trial.threads - 1 for trial in self._trials if trial.way is Way.FORK)
        if (threads := count_threads()) > expected:
            complain(f"expected {expected} threads after the imports, got {threads}: all tasks import their modules")
            self.definitions.clear()


def _end_at(end: float) -> None:
    """By the default action of a timer, whatever the module before has made of it; the end of a trial stops it."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, max(1.0, end - monotonic()))


def module_names(modules: Iterable[str]) -> list[str]:
    """These and the installed ones, each once."""
    return list(dict.fromkeys([*modules, *_installed_modules()]))


def take_trials(path: str | None) -> dict[str, Trial]:
    """What another forkserver of the same code has found. Taken away: who fails by it does not leave it behind."""
    if path is None:
        return {}
    try:
        return read_trials(Path(path))
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        complain(f"trials: expected those of another forkserver, got {error!r}")
        return {}
    finally:
        with suppress(OSError):
            Path(path).unlink()


def _installed_modules() -> list[str]:
    try:
        return sorted(point.module for point in entry_points(group=GROUP))
    except Exception:  # noqa: BLE001 -- a broken distribution elsewhere is not ours to die of
        traceback.print_exc()
        return []
