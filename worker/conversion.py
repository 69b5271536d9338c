"""From a submission's JSON to what a task's annotations say: described for the supervisor, done in the worker."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from chong.worker.annotations import Annotated, Unresolved, annotated

_PLACE = re.compile(r"(.*?)(?: - at (?:`key` in )?`\$(.*)`)?", re.DOTALL)


class Unfit(ValueError):  # noqa: N818 -- a finding
    """A value is not what an annotation says."""


class Conversion:
    """Of one function. Only one with annotations needs msgspec, and imports it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.fault = ""
        """Why the task cannot be served."""
        self._hints: dict[str, Any] = {}
        self._rest: Any = Any
        self._shapes: dict[str, Any] = {}
        self._rest_shape: Any = None
        self._classes: list[dict[str, Any]] = []
        self._unchecked: list[str] = []
        for parameter in annotated(function):
            self._take(parameter)

    @property
    def described(self) -> dict[str, Any]:
        """For the supervisor. `rest` is for parameters that have no name of their own."""
        return {
            "shapes": self._shapes,
            "rest": self._rest_shape,
            "classes": self._classes,
            "unchecked": self._unchecked,
        }

    def convert(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments; Unfit names the wrong place, and no value: failures are kept in the shared store."""
        return {name: self._converted(name, value) for name, value in params.items()}

    def _take(self, parameter: Annotated) -> None:
        """What cannot be described is left as it is, unless nobody could ever fill it."""
        if parameter.hint is Any:
            self._keep(parameter, {"is": "any"})
            return
        from chong.worker.shape import Odd, shape_of  # noqa: PLC0415 -- most tasks' JSON is taken as it is

        try:
            if parameter.hint is Unresolved:
                raise Odd(parameter.hint)
            shape = shape_of(parameter.hint, self._classes)
        except Odd as odd:
            self._unchecked.append(parameter.name)
            self._keep(replace(parameter, hint=Any), {"is": "any"})
            if odd.nothing_fits and parameter.is_required:
                self.fault = f"parameter {parameter.name!r}: expected a type that JSON can fill, got {_name(odd.kind)}"
        else:
            self._keep(parameter, shape)

    def _keep(self, parameter: Annotated, shape: dict[str, Any]) -> None:
        if parameter.is_rest:
            self._rest, self._rest_shape = parameter.hint, shape
        else:
            self._hints[parameter.name], self._shapes[parameter.name] = parameter.hint, shape

    def _converted(self, name: str, value: Any) -> Any:
        hint = self._hints.get(name, self._rest)
        if hint is Any:
            return value
        from msgspec import ValidationError, convert  # noqa: PLC0415 -- it is there already

        try:
            return convert(value, hint, str_keys=True, dec_hook=_made)
        except ValidationError as error:
            raise Unfit(_told(name, str(error))) from None


def _made(kind: type, value: Any) -> Any:
    """An instance of one of the classes that msgspec does not know, and that can be described all the same."""
    if kind is object:
        return value
    if not (isinstance(value, str) and issubclass(kind, PurePath)):
        raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
    return kind(value)


def _told(name: str, error: str) -> str:
    found = _PLACE.fullmatch(error)
    what, place = (found[1], found[2] or "") if found else (error, "")
    if what.startswith("Invalid enum value"):
        what = "expected one of its values, got another"
    what = what[:1].lower() + what[1:].replace("`", "")
    expected, got, rest = what.partition(", got")
    return f"{expected} at {name}{place}{got}{rest}"


def _name(kind: object) -> str:
    return f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', kind)}"[:200]
