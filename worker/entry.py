"""A definition in words: what a supervisor knows of a task, which never imports its code."""

import inspect
from dataclasses import asdict
from types import CodeType
from typing import Any

from chong.worker.definition import Definition
from chong.worker.failure import shorten

PARAMETERS_LIMIT = 500

Entry = dict[str, Any]


def entry_of(definition: Definition) -> Entry:
    """Plain JSON. `function` tells two definitions of one module from each other; `line`: 0 for what has none.

    fault: why it cannot be served, "" when it can.
    """
    function = definition.function
    code = getattr(inspect.unwrap(function), "__code__", None)
    return {
        "name": definition.name,
        "module": str(definition.module),
        "function": str(getattr(function, "__qualname__", type(function).__qualname__)),
        "line": code.co_firstlineno if isinstance(code, CodeType) else 0,
        "options": asdict(definition.options),
        "parameters": _parameters(definition),
        "accepts": _accepts(definition),
        "types": definition.conversion.described,
        "fault": definition.conversion.fault,
    }


def where(entry: Entry) -> str:
    """Where the definition stands, for a person."""
    line = entry.get("line")  # a forkserver of another version may have written it
    return f"{entry['module']}{f':{line}' if line else ''} ({entry['function']})"


def _accepts(definition: Definition) -> dict[str, Any]:
    """The names that parameters must and may have, so that a submission can be refused before it costs a run."""
    rest = list(inspect.signature(definition.function).parameters.values())[1:]
    named = [p for p in rest if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return {
        "required": [p.name for p in named if p.default is p.empty],
        "optional": [p.name for p in named if p.default is not p.empty],
        "any": any(p.kind is p.VAR_KEYWORD for p in rest),
    }


class _Bare(str):
    """Text without quotes around it."""

    __slots__ = ()
    __repr__ = str.__str__


def _bare(annotation: Any) -> Any:
    """As it was written, also where `from __future__ import annotations` has made text of it."""
    return _Bare(annotation) if type(annotation) is str else annotation


def _parameters(definition: Definition) -> str:
    """The signature without the context, as people would write the parameters; defaults may be of any type."""
    try:
        signature = inspect.signature(definition.function)
        rest = [each.replace(annotation=_bare(each.annotation)) for each in list(signature.parameters.values())[1:]]
        text = str(signature.replace(parameters=rest, return_annotation=inspect.Signature.empty))
    except Exception:  # noqa: BLE001
        return "(...)"
    return shorten(text, PARAMETERS_LIMIT)
