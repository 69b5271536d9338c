"""The task modules of one generation: what they define, and what could not be imported."""

import importlib
import inspect
import os
import sys
import traceback
from dataclasses import asdict, dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from chong.worker.account import account_of
from chong.worker.definition import Definition
from chong.worker.failure import shorten
from chong.worker.result import encode_plain
from chong.worker.runfile import write_file

GROUP = "chong.tasks"
ERROR_LIMIT = 500
TRACEBACK_LIMIT = 4096
PARAMETERS_LIMIT = 500


@dataclass
class Catalogue:
    definitions: dict[str, Definition] = field(default_factory=dict)
    errors: list[dict[str, str]] = field(default_factory=list)

    def load(self, modules: list[str]) -> None:
        """A module that raises costs only its own tasks; one that hangs or ends the process costs this generation."""
        for name in dict.fromkeys([*modules, *_installed_modules()]):
            # One that hangs or ends the process leaves its name in the generation's log.
            os.write(2, f"chong: importing {name}\n".encode("utf-8", "backslashreplace"))
            try:
                found = [item for item in vars(importlib.import_module(name)).values() if type(item) is Definition]
            except BaseException as error:  # noqa: BLE001 -- SystemExit too: a module may call sys.exit
                self._blame(name, error)
            else:
                self._add(name, found)
            _flush()

    def write(self, path: str) -> None:
        catalogue = {"tasks": [_entry(item) for item in self.definitions.values()], "errors": self.errors}
        write_file(Path(path), encode_plain(catalogue).encode("utf-8", "backslashreplace"))

    def _add(self, module: str, found: list[Definition]) -> None:
        for definition in found:
            if (refusal := self._refusal(definition)) is not None:
                text = f"task {definition.name!r}: {refusal}"
                self.errors.append({"module": module, "error": shorten(text, ERROR_LIMIT), "traceback": ""})

    def _refusal(self, definition: Definition) -> str | None:
        """Why it cannot be run here; a task whose user this process cannot become is none of ours."""
        try:
            if definition.options.user is not None:
                account_of(definition.options.user)
        except ValueError as error:
            return str(error)
        first = self.definitions.setdefault(definition.name, definition)
        return None if first is definition else f"expected one definition, got a second one beside {first.module}'s"

    def _blame(self, module: str, error: BaseException) -> None:
        try:
            lines = traceback.format_exception(error)
        except BaseException:  # noqa: BLE001 -- its text is the module's code
            lines = [f"{type(error).__name__}: (its text could not be formed)"]
        last = lines[-1].strip() or type(error).__name__
        text = shorten("".join(lines), TRACEBACK_LIMIT)
        self.errors.append({"module": module, "error": shorten(last, ERROR_LIMIT), "traceback": text})


def _installed_modules() -> list[str]:
    try:
        return sorted(point.module for point in entry_points(group=GROUP))
    except Exception:  # noqa: BLE001 -- a broken distribution elsewhere is not ours to die of
        traceback.print_exc()
        return []


def _entry(definition: Definition) -> dict[str, Any]:
    return {
        "name": definition.name,
        "module": str(definition.module),
        "options": asdict(definition.options),
        "parameters": _parameters(definition),
        "accepts": _accepts(definition),
    }


def _accepts(definition: Definition) -> dict[str, Any]:
    """The names that parameters must and may have, so that a submission can be refused before it costs a run."""
    rest = list(inspect.signature(definition.function).parameters.values())[1:]
    named = [p for p in rest if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return {
        "required": [p.name for p in named if p.default is p.empty],
        "optional": [p.name for p in named if p.default is not p.empty],
        "any": any(p.kind is p.VAR_KEYWORD for p in rest),
    }


def _parameters(definition: Definition) -> str:
    """The signature without the context, as people would write the parameters; defaults may be of any type."""
    try:
        signature = inspect.signature(definition.function)
        rest = list(signature.parameters.values())[1:]
        text = str(signature.replace(parameters=rest, return_annotation=inspect.Signature.empty))
    except Exception:  # noqa: BLE001
        return "(...)"
    return shorten(text, PARAMETERS_LIMIT)


def _flush() -> None:
    """What a module printed must not lie in a buffer that every worker inherits."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            os.write(2, b"chong: a task module closed its output\n")
