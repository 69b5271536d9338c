"""A task's parameters: which there are, what each of them takes, and how texts are read by that."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from msgspec import ValidationError, convert, to_builtins

from chong.supervisor.jsontext import json_or_text
from chong.supervisor.shape import Fault, Shape, read_shapes
from chong.worker.duration import parse_duration

_REST = "**"


@dataclass(frozen=True, slots=True)
class Types:
    """What parameters take, by name. rest: those that have no name of their own; None for anything.

    unchecked: those whose annotation does not say how it is made of JSON.
    """

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    rest: Shape | None = None
    unchecked: tuple[str, ...] = ()

    def read(self, params: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
        """JSON as it is, texts as the JSON that the parameter takes; ValueError in words for one that does not fit."""
        read = {name: read_text(text, self._shape(name)) for name, text in texts.items()}
        for name, value in (given := {**params, **read}).items():
            shape = self._shape(name)
            fault = None if shape is None else shape.fault(value)
            if fault is not None:
                raise ValueError(_told(name, fault))
        return given

    def _shape(self, name: str) -> Shape | None:
        return self.shapes.get(name, self.rest)


def types_from_json(content: Mapping[str, Any]) -> Types:
    """TypeError, ValueError, LookupError or AttributeError for what no forkserver of this version writes."""
    rest = {} if content["rest"] is None else {_REST: content["rest"]}
    shapes = read_shapes({**content["shapes"], **rest}, content["classes"])
    return Types(shapes, shapes.pop(_REST, None), tuple(map(str, content["unchecked"])))


def read_text(text: str, shape: Shape | None) -> Any:
    """As `-p name=value` has it. What fits strictly is kept so: text where JSON has it as text, else what JSON it is.

    What does not fit is given back for whoever says why.
    """
    value = json_or_text(text)
    if shape is None:
        return value
    for candidate in (text, value) if shape.is_text else (value, text):
        if shape.fault(candidate) is None:
            return candidate
    lenient = _lenient(text, shape)
    if lenient is not None and shape.fault(lenient) is None:
        return lenient
    return text if shape.is_text else value


def _lenient(text: str, shape: Shape) -> Any:
    """1 for true, 1e3 for a whole number, 10m for a length of time; None when it is none of these."""
    for leaf in shape.members or (shape,):
        try:
            if leaf.word == "timedelta":
                return to_builtins(timedelta(seconds=parse_duration(text)))
            if leaf.word in {"bool", "int", "float"}:
                return convert(text, leaf.kind, strict=False)
        except (ValidationError, ValueError, OverflowError):
            continue
    return None


def _told(name: str, fault: Fault) -> str:
    return f"expected {fault.expected} at {name}{fault.place}, got {fault.got}"
