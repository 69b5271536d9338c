"""What JSON a parameter takes, by the words in which a forkserver has described its type.

A type for msgspec that is equivalent decides wherever there is one. Classes with fields are walked, as they are not to
be had here; and where a value does not fit, the walk finds out where.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import GenericAlias, NoneType
from typing import Annotated, Any, Literal, Union
from uuid import UUID

from msgspec import Meta, ValidationError, convert
from msgspec.json import Decoder

from chong.worker.nearest import nearest

TEXT_LIMIT = 40
MOST_CHOICES = 10
LEAVES: dict[str, tuple[Any, str]] = {
    "any": (Any, "any JSON"),
    "null": (NoneType, "null"),
    "bool": (bool, "bool"),
    "int": (int, "int"),
    "float": (float, "float"),
    "str": (str, "str"),
    "path": (str, "a path"),
    "bytes": (bytes, "text in base64"),
    "date": (date, "a date like 2026-12-31"),
    "datetime": (datetime, "a date and time like 2026-12-31T06:00:00Z"),
    "time": (time, "a time of day like 06:30:00"),
    "timedelta": (timedelta, "a length of time like PT1H30M"),
    "decimal": (Decimal, "a decimal number"),
    "uuid": (UUID, "a UUID"),
}
"""By word the type, and what a person calls it."""
TEXTUAL = frozenset({"str", "path", "bytes", "date", "datetime", "time", "timedelta", "decimal", "uuid"})
"""Those that JSON has as text."""
OF_A_FORMAT = TEXTUAL - {"str", "path"}

_LISTS: dict[str, Callable[[Any], Any]] = {
    "list": lambda item: GenericAlias(list, item),
    "row": lambda item: GenericAlias(tuple, (item, ...)),
    "set": lambda item: GenericAlias(set, item),
    "frozenset": lambda item: GenericAlias(frozenset, item),
}
Described = Mapping[str, Any]
Explain = Callable[[Any, str], "Fault | None"]


@dataclass(frozen=True, slots=True)
class Fault:
    """Where a value does not fit. `place`: what leads there from the parameter."""

    expected: str
    got: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """kind: the equivalent type, None where only the walk knows. word: of a leaf. members: those of a union.

    is_text: JSON has it as text, or as null.
    """

    words: str
    kind: Any
    explain: Explain
    word: str = ""
    is_text: bool = False
    members: tuple["Shape", ...] = ()

    def fault(self, value: Any, place: str = "") -> Fault | None:
        """Why a JSON value is none of these; None when it is one."""
        if self.kind is not None and fits(value, self.kind):
            return None
        return self.explain(value, place)


def fits(value: Any, kind: Any) -> bool:
    try:
        convert(value, kind, str_keys=True)
    except (ValidationError, TypeError):  # the latter of an item that no set takes, before msgspec 0.23
        return False
    return True


def read_shapes(content: Described, classes: Iterable[Described]) -> dict[str, Shape]:
    """By parameter; TypeError, ValueError, LookupError or AttributeError for what no forkserver writes."""
    known = [_Class(described) for described in classes]
    for each in known:
        each.settle(known)
    shapes = {str(name): _read(described, known) for name, described in content.items()}
    for shape in shapes.values():
        Decoder(Any if shape.kind is None else shape.kind)  # it tells a type that is none
    return shapes


class _Class:
    """One with fields, each of which may be of the class itself."""

    def __init__(self, described: Described) -> None:
        self.name = str(described["name"])
        self._required = [str(name) for name in described["required"]]
        self._described = dict(described["fields"])
        self._fields: dict[str, Shape] = {}

    def settle(self, classes: list["_Class"]) -> None:
        self._fields = {str(name): _read(described, classes) for name, described in self._described.items()}

    def fault(self, value: Any, place: str) -> Fault | None:
        if not isinstance(value, dict):
            return _wrong(f"dict for {self.name}", value, place)
        for name in value:
            if name not in self._fields:
                got = f"an unknown {_short(name)}{_meant(name, self._fields)}"
                return Fault(f"{one_of(self._fields)} of {self.name}", got, place)
        for name in self._required:
            if name not in value:
                return Fault(f"{name!r} of {self.name}", "none", place)
        return _first(self._fields[name].fault(each, f"{place}.{name}") for name, each in value.items())


def _read(described: Described, classes: list[_Class]) -> Shape:
    word = described["is"]
    return _READERS[word](described, classes) if word in _READERS else _leaf(word, described)


def _leaf(word: str, described: Described) -> Shape:
    kind, words = LEAVES[word]
    words = _limited(words, described)

    def explain(value: Any, place: str) -> Fault:
        if word in OF_A_FORMAT and isinstance(value, str):
            return Fault(words, _short(value), place)
        return _wrong(words, value, place)

    kind = _typed(kind, described)
    return Shape(words=words, kind=kind, explain=explain, word=word, is_text=word in TEXTUAL)


def _list(described: Described, classes: list[_Class]) -> Shape:
    """A set is a list whose items can be told apart for good: no lists, no dicts."""
    item, shell, words = _read(described["of"], classes), _typed(list, described), _limited("list", described)
    kind = None if item.kind is None else _typed(_LISTS[described["is"]](item.kind), described)

    def explain(value: Any, place: str) -> Fault | None:
        if not fits(value, shell):
            return _wrong(words, value, place)
        fault = _first(item.fault(each, f"{place}[{index}]") for index, each in enumerate(value))
        if fault is None and kind is not None:
            return Fault("a list whose items are no lists and no dicts", "one", place)
        return fault

    return Shape(words=words, kind=kind, explain=explain)


def _tuple(described: Described, classes: list[_Class]) -> Shape:
    items, least = [_read(item, classes) for item in described["of"]], int(described["least"])
    words = f"list of {len(items)}" if least == len(items) else f"list of {least} to {len(items)}"

    def explain(value: Any, place: str) -> Fault | None:
        if not isinstance(value, list):
            return _wrong(words, value, place)
        if not least <= len(value) <= len(items):
            return Fault(words, str(len(value)), place)
        pairs = enumerate(zip(items, value, strict=False))
        return _first(item.fault(each, f"{place}[{index}]") for index, (item, each) in pairs)

    kinds = tuple(item.kind for item in items)
    kind = None if None in kinds or least < len(items) else GenericAlias(tuple, kinds)
    return Shape(words=words, kind=kind, explain=explain)


def _dict(described: Described, classes: list[_Class]) -> Shape:
    keys, item = _read(described["keys"], classes), _read(described["of"], classes)
    shell, words = _typed(dict, described), _limited("dict", described)
    key_alone = GenericAlias(dict, (keys.kind, Any))

    def explain(value: Any, place: str) -> Fault | None:
        if not fits(value, shell):
            return _wrong(words, value, place)
        return _first(explain_item(key, each, place) for key, each in value.items())

    def explain_item(key: str, each: Any, place: str) -> Fault | None:
        if not fits({key: None}, key_alone):
            return Fault(f"keys that are {keys.words}", _short(key), place)
        return item.fault(each, f"{place}[{_short(key)}]")

    kind = None if item.kind is None else _typed(GenericAlias(dict, (keys.kind, item.kind)), described)
    return Shape(words=words, kind=kind, explain=explain)


def _union(described: Described, classes: list[_Class]) -> Shape:
    members = tuple(_read(member, classes) for member in described["of"])
    told = [member for member in members if member.word != "null"]
    words = " or ".join([*(member.words for member in told), *(["null"] if len(told) < len(members) else [])])

    def explain(value: Any, place: str) -> Fault | None:
        """The fault that lies deepest: of the member that was meant."""
        faults = [fault for fault in (member.fault(value, place) for member in members) if fault is not None]
        if len(faults) < len(members):
            return None
        meant = told if value is not None else []
        deepest = max(faults, key=lambda fault: len(fault.place))
        if len(deepest.place) > len(place):
            return deepest
        return _or_null(meant[0].explain(value, place)) if len(meant) == 1 else _wrong(words, value, place)

    kinds = [member.kind for member in members]
    kind = None if None in kinds else Union[tuple(kinds)]  # noqa: UP007 - of a list of them
    is_text = bool(told) and all(member.is_text for member in told)
    return Shape(words=words, kind=kind, explain=explain, is_text=is_text, members=members)


def _choice(described: Described, _: list[_Class]) -> Shape:
    values = list(described["of"])
    words = one_of(values)

    def explain(value: Any, place: str) -> Fault:
        if not isinstance(value, str):
            return Fault(words, repr(value) if isinstance(value, int | float) else _kind(value), place)
        return Fault(words, _short(value) + _meant(value, values), place)

    is_text = all(isinstance(value, str | None) for value in values)
    return Shape(words=words, kind=Literal[tuple(values)], explain=explain, is_text=is_text)


def _named(described: Described, classes: list[_Class]) -> Shape:
    meant = classes[described["number"]]
    return Shape(words=meant.name, kind=None, explain=meant.fault)


_READERS: dict[str, Callable[[Described, list[_Class]], Shape]] = {
    **dict.fromkeys(_LISTS, _list),
    "tuple": _tuple,
    "dict": _dict,
    "union": _union,
    "choice": _choice,
    "class": _named,
}


def one_of(values: Iterable[Any]) -> str:
    texts = [repr(value) if value is not None else "null" for value in values]
    more = f" … {len(texts) - MOST_CHOICES} more" if len(texts) > MOST_CHOICES else ""
    return ("one of " if len(texts) > 1 else "") + ", ".join(text[:TEXT_LIMIT] for text in texts[:MOST_CHOICES]) + more


def _typed(kind: Any, described: Described) -> Any:
    limits = described.get("limits")
    return Annotated[kind, Meta(**limits)] if limits else kind


def _limited(words: str, described: Described) -> str:
    return words + "".join(f" ({name} {value})" for name, value in described.get("limits", {}).items())


def _first(faults: Iterable[Fault | None]) -> Fault | None:
    return next((fault for fault in faults if fault is not None), None)


def _or_null(fault: Fault | None) -> Fault | None:
    return None if fault is None else Fault(f"{fault.expected} or null", fault.got, fault.place)


def _wrong(words: str, value: Any, place: str) -> Fault:
    """Also of a value of the right kind that is outside the limits."""
    got = _kind(value) if not isinstance(value, int | float) or isinstance(value, bool) else f"{_kind(value)} {value!r}"
    return Fault(words, got, place)


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def _meant(word: str, choices: Iterable[Any]) -> str:
    near = nearest(word, [choice for choice in choices if isinstance(choice, str)])
    return f", did you mean {near!r}?" if near else ""


def _short(text: str) -> str:
    return repr(text if len(text) <= TEXT_LIMIT else f"{text[:TEXT_LIMIT]}…")
