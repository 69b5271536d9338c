"""What the annotations of a task's function say: its parameters, each with its type."""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Optional, cast, get_type_hints

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)


class Unresolved:
    """Stands for an annotation whose names mean nothing where it stands, as after an import for type checkers alone."""


@dataclass(frozen=True, slots=True)
class Annotated:
    """One parameter after the context. `hint` is a type, Any where there is no annotation, or Unresolved.

    is_rest: it stands for all that have no name of their own.
    """

    name: str
    hint: Any
    is_required: bool = False
    is_rest: bool = False


def annotated(function: Callable[..., Any]) -> list[Annotated]:
    """Those that are given by name; the context, which is the first parameter, is none of them."""
    rest = list(inspect.signature(function).parameters.values())[1:]
    names = _names_around(function)
    return [_read(parameter, names) for parameter in rest if parameter.kind in _BY_NAME]


def _read(parameter: inspect.Parameter, names: Mapping[str, Any]) -> Annotated:
    is_rest = parameter.kind is parameter.VAR_KEYWORD
    hint = Any if parameter.annotation is parameter.empty else _resolved(parameter, names)
    return Annotated(parameter.name, hint, parameter.default is parameter.empty and not is_rest, is_rest)


def _resolved(parameter: inspect.Parameter, names: Mapping[str, Any]) -> Any:
    """By itself: where one names what only type checkers import, the others still mean something.

    Also of text, which is what all annotations are after `from __future__ import annotations`. A default of None says
    that null is taken, also where the annotation does not.
    """
    holder = SimpleNamespace(__annotations__={"it": parameter.annotation})
    try:
        hint = get_type_hints(holder, dict(names), include_extras=True)["it"]
        if parameter.default is None and hint is not Any:
            return Optional[hint]  # noqa: UP045 - a hint need not know the operator
    except Exception:  # noqa: BLE001 -- it is the module's code
        return Unresolved
    return hint


def _names_around(function: Any) -> Mapping[str, Any]:
    """What the names of its module mean, whatever it is wrapped in."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    if not hasattr(function, "__globals__"):
        function = inspect.unwrap(getattr(type(function), "__call__", function))  # noqa: B004 -- its class has it
    if (around := getattr(function, "__globals__", None)) is not None:
        return cast("Mapping[str, Any]", around)
    return vars(sys.modules.get(str(getattr(function, "__module__", "")), SimpleNamespace()))
