"""The task definitions of a generation, as its forkserver wrote them down."""

import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from chong.store.errors import Refused
from chong.store.model import CatalogueEntry
from chong.supervisor.files import read_json
from chong.supervisor.holds import EVERYTHING
from chong.supervisor.signature import Types, types_from_json
from chong.supervisor.submission import Submission
from chong.worker.nearest import nearest
from chong.worker.options import Options, options_from_json
from chong.worker.wire import ProtocolError

UNDEFINED = "no task module defines it any more: what waits fails when it is released"
KEYS_SHOWN = 100
MOST_REFUSED = 2000
"""Characters about one name."""
MOST_ABOUT_PARAMETERS = 1000


@dataclass(frozen=True, slots=True)
class Task:
    """One definition; `parameters` is its signature as text, for people.

    is_executed: its runs import its module by themselves, because that does not bear a fork.
    """

    name: str
    module: str
    parameters: str
    options: Options
    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    accepts_any: bool = False
    is_executed: bool = False
    types: Types = Types()  # noqa: RUF009 - frozen

    def read(self, submission: Submission, *, later: str | None = None) -> Submission:
        """With its parameters as they are kept; Refused when they do not fit the signature.

        later: a parameter that is not there yet.
        """
        self.check_names({**submission.params, **submission.texts, **({} if later is None else {later: None})})
        try:
            params = self.types.read(submission.params, submission.texts)
        except ValueError as error:
            said = f"task {self.name!r}: {error}; its parameters are {self.parameters}"
            raise Refused(said[:MOST_ABOUT_PARAMETERS]) from None
        return replace(submission, params=params, texts={}) if submission.texts else submission

    def check_names(self, params: Mapping[str, Any]) -> None:
        """Refused when parameters are missing or unknown: such a run could only fail, again and again."""
        missing = sorted(self.required.difference(params))
        strange = [] if self.accepts_any else sorted(set(params) - self.required - self.optional)
        if missing or strange:
            got = ", ".join([*(f"no {name!r}" for name in missing), *(self._unknown(name) for name in strange)])
            raise Refused(
                f"task {self.name!r}: expected parameters {self.parameters}, got {got}"[:MOST_ABOUT_PARAMETERS]
            )

    def _unknown(self, name: str) -> str:
        near = nearest(name, sorted(self.required | self.optional))
        return f"an unknown {name!r}" + (f" (did you mean {near!r}?)" if near else "")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a definition does not count, whose module is served otherwise; with several of one name the first module."""

    module: str
    error: str


class UnknownTask(Refused):
    """No task of this name was loaded. `word`: the refused name, with the nearest one where there is one.

    known: the names that were loaded. errors: by module, why others were not.
    """

    def __init__(self, word: str, advice: str, *, known: Collection[str], errors: Mapping[str, str]) -> None:
        super().__init__(f"{word}{advice}"[:MOST_REFUSED])
        self.word = word
        self.known = known
        self.errors = errors


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Tasks by name; per module that could not be loaded the reason; definitions that were refused, by name.

    A name may be among the tasks and the refused: of two definitions the first one counts.
    """

    tasks: dict[str, Task] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)

    def find(self, name: str) -> Task:
        """The task of this name; Refused with the nearest name, and with the modules that failed and may define it."""
        found = self.tasks.get(name)
        if found is not None:
            return found
        if name in self.refused:
            raise Refused(f"task {name!r}: {self.refused[name].error}")
        near = nearest(name, self.tasks)
        hint = f", did you mean {near!r}?" if near else ""
        suspects = [module for module in sorted(self.errors) if _may_define(module, name)]
        if not suspects and not self.tasks:  # nothing could be imported at all
            suspects = sorted(self.errors)[:1]
        broken = "".join(f"; module {module} failed: {self.errors[module]}" for module in suspects)
        if not broken and not near and self.errors:
            count = "a module" if len(self.errors) == 1 else f"{len(self.errors)} modules"
            broken = f"; {count} could not be imported, see chong tasks"
        raise UnknownTask(f"unknown task {name!r}{hint}", broken, known=self.tasks, errors=self.errors)

    @property
    def tellers(self) -> list[Task]:
        """The tasks whose keys a function tells."""
        return [task for task in self.tasks.values() if task.options.calls_keys]

    def with_keys(self, keys: Mapping[str, tuple[str, ...]]) -> "Catalogue":
        """With these as the keys of tasks, by name, as far as a function tells them."""
        told = {task.name: task for task in self.tellers if task.name in keys}
        if not told:
            return self
        known = {name: replace(task, options=replace(task.options, keys=keys[name])) for name, task in told.items()}
        return replace(self, tasks=self.tasks | known)

    def entries(self, node: str, holds: Mapping[str, str], errors: Mapping[str, str]) -> list[CatalogueEntry]:
        """What the node publishes: definitions with holds and errors by name, broken modules in brackets.

        A refused definition is an error of its name, not of its module. A held name that nothing defines is shown too:
        its tasks may still wait.
        """
        wrong = {name: refusal.error for name, refusal in self.refused.items()}
        wrong |= {name: f"{error}; {wrong[name]}" if name in wrong else error for name, error in errors.items()}
        good = [
            CatalogueEntry(
                node=node,
                name=task.name,
                module=task.module,
                options=_shown(task),
                error=wrong.get(task.name),
                hold=holds.get(task.name),
            )
            for task in self.tasks.values()
        ]
        bad = [
            CatalogueEntry(node=node, name=f"({module})", module=module, error=error)
            for module, error in self.errors.items()
        ]
        bad += [
            CatalogueEntry(node=node, name=name, module=refusal.module, error=refusal.error, hold=holds.get(name))
            for name, refusal in self.refused.items()
            if name not in self.tasks
        ]
        only_held = [
            CatalogueEntry(node=node, name=name, module="", hold=text, error=None if name == EVERYTHING else UNDEFINED)
            for name, text in holds.items()
            if name not in self.tasks and name not in self.refused
        ]
        return good + bad + only_held


def _may_define(module: str, name: str) -> bool:
    """By the way names are given: `acme.billing` or `billing_tasks` for `billing.sync`."""
    return name.startswith(f"{module}.") or name.split(".", maxsplit=1)[0] in re.split(r"[._]", module)


def read_catalogue(path: Path) -> Catalogue:
    """ProtocolError when the file is not there, or is not what a forkserver of this version writes."""
    try:
        return _catalogue_from(read_json(path))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ProtocolError(f"catalogue {path}: expected a forkserver's list of tasks, got {error!r}") from error


def _catalogue_from(content: Any) -> Catalogue:
    tasks = {
        item["name"]: Task(
            item["name"],
            item["module"],
            item["parameters"],
            options_from_json(item["options"]),
            frozenset(item["accepts"]["required"]),
            frozenset(item["accepts"]["optional"]),
            item["accepts"]["any"],
            item["exec"],
            types_from_json(item["types"]) if "types" in item else Types(),
        )
        for item in content["tasks"]
    }
    broken = {item["module"]: item["error"] for item in content["errors"] if item["task"] is None}
    refused: dict[str, Refusal] = {}
    for item in content["errors"]:
        if (name := item["task"]) is not None:
            before = refused.get(name)
            refused[name] = Refusal(item["module"], item["error"]) if before is None else _beside(before, item["error"])
    return Catalogue(tasks, broken, refused)


def _beside(first: Refusal, error: str) -> Refusal:
    return replace(first, error=f"{first.error}; {error}"[:MOST_REFUSED])


def _shown(task: Task) -> dict[str, object]:
    """For the shared store: of `env` the names alone, its values may be secrets; of many keys the first."""
    keys = task.options.keys
    shown = asdict(replace(task.options, keys=keys[:KEYS_SHOWN])) | {"env": sorted(task.options.env)}
    more: dict[str, object] = {"key_count": len(keys)} if len(keys) > KEYS_SHOWN else {}
    if task.is_executed:
        more["exec"] = True
    if task.types.unchecked:
        more["unchecked"] = list(task.types.unchecked)
    return {"parameters": task.parameters, **shown, **more}
