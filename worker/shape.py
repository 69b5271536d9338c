"""A type in words: what JSON it is made of, as plain JSON itself, for a supervisor, which never imports its classes.

Each description has a word for what it `is`. A class that has fields stands in a list beside, and is named by its
number there, as it may contain itself.
"""

from enum import Enum, Flag
from pathlib import PurePath
from typing import Any, cast, get_origin

from msgspec import inspect as m

Shape = dict[str, Any]

ANYTHING: Shape = {"is": "any"}
LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "tz")
_LEAVES: dict[type[m.Type], str] = {
    m.AnyType: "any",
    m.NoneType: "null",
    m.BoolType: "bool",
    m.IntType: "int",
    m.FloatType: "float",
    m.StrType: "str",
    m.BytesType: "bytes",
    m.DateType: "date",
    m.DateTimeType: "datetime",
    m.TimeType: "time",
    m.TimeDeltaType: "timedelta",
    m.DecimalType: "decimal",
    m.UUIDType: "uuid",
}
_LISTS: dict[type[m.Type], str] = {
    m.ListType: "list",
    m.VarTupleType: "row",
    m.SetType: "set",
    m.FrozenSetType: "frozenset",
}
_KEYS = {*_LEAVES.values(), "path", "choice"}
_JSON_TYPES = (str, int, float, bool, list, dict, type(None))


class Odd(Exception):  # noqa: N818 -- a finding
    """Of a type nobody can tell how it is made of JSON. `nothing_fits`: the whole of it, and no JSON value is one."""

    nothing_fits = False

    def __init__(self, kind: object) -> None:
        super().__init__(kind)
        self.kind = kind


def shape_of(hint: Any, classes: list[Shape]) -> Shape:
    """Adds to `classes` what it names; Odd when it cannot be described."""
    count = len(classes)
    info: m.Type | None = None
    try:
        info = m.type_info(hint)
        return _Description(classes).of(info)
    except Exception as error:  # noqa: BLE001 -- none that msgspec knows, or a class with ideas of its own
        del classes[count:]
        odd = error if isinstance(error, Odd) else Odd(hint)
        odd.nothing_fits = isinstance(info, m.CustomType) and _is_foreign(info.cls)
        raise odd from None


class _Description:
    def __init__(self, classes: list[Shape]) -> None:
        self._classes = classes
        self._numbers: dict[int, int] = {}

    def of(self, info: m.Type) -> Shape:
        if isinstance(info, m.Metadata):
            return self.of(info.type)
        if (word := _LEAVES.get(type(info))) is not None:
            return {"is": word} | _limits(info)
        if isinstance(info, m.ListType | m.VarTupleType | m.SetType | m.FrozenSetType):
            return {"is": _LISTS[type(info)], "of": self.of(info.item_type)} | _limits(info)
        if isinstance(info, m.TupleType):
            return {"is": "tuple", "of": [self.of(item) for item in info.item_types], "least": len(info.item_types)}
        if isinstance(info, m.DictType):
            return {"is": "dict", "keys": self._keys(info.key_type), "of": self.of(info.value_type)} | _limits(info)
        if isinstance(info, m.UnionType):
            return {"is": "union", "of": [self.of(member) for member in info.types]}
        if isinstance(info, m.LiteralType):
            return {"is": "choice", "of": list(info.values)}
        if isinstance(info, m.EnumType):
            return _choice(info.cls)
        if isinstance(info, m.CustomType):
            return _custom(info.cls)
        return self._fields(info)

    def _keys(self, info: m.Type) -> Shape:
        """JSON has them as text."""
        shape = self.of(info)
        if any(each["is"] not in _KEYS for each in (shape["of"] if shape["is"] == "union" else [shape])):
            raise Odd(info)
        return shape

    def _fields(self, info: m.Type) -> Shape:
        if isinstance(info, m.NamedTupleType):
            least = sum(field.required for field in info.fields)
            return {"is": "tuple", "of": [self.of(field.type) for field in info.fields], "least": least}
        if isinstance(info, m.StructType) and (info.array_like or info.tag is not None):
            return ANYTHING  # the worker alone knows it
        if not isinstance(info, m.DataclassType | m.TypedDictType | m.StructType):
            raise Odd(info)
        if id(info) not in self._numbers:
            self._numbers[id(info)] = len(self._classes)
            described: Shape = {}
            self._classes.append(described)
            described |= {
                "name": info.cls.__name__,
                "fields": {field.encode_name: self.of(field.type) for field in info.fields},
                "required": [field.encode_name for field in info.fields if field.required],
            }
        return {"is": "class", "number": self._numbers[id(info)]}


def _custom(kind: object) -> Shape:
    if kind is object:
        return ANYTHING
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return {"is": "path"}
    raise Odd(kind)


def _limits(info: m.Type) -> Shape:
    """Patterns are left to the worker: one may take for ever."""
    given = {name: getattr(info, name, None) for name in LIMITS}
    return {"limits": limits} if (limits := {name: value for name, value in given.items() if value is not None}) else {}


def _choice(kind: type[Enum]) -> Shape:
    """Of one that makes something of other values too, only the worker knows which."""
    if issubclass(kind, Flag) or cast("Any", kind._missing_).__func__ is not cast("Any", Enum._missing_).__func__:
        return {"is": "str" if issubclass(type(next(iter(kind)).value), str) else "int"}
    return {"is": "choice", "of": [member.value for member in kind]}


def _is_foreign(kind: Any) -> bool:
    """Whether no JSON value is an instance; numbers.Number is a class that has some, and so may a Protocol."""
    kind = get_origin(kind) or kind
    try:
        is_near = any(issubclass(each, kind) or issubclass(kind, each) for each in _JSON_TYPES)
    except Exception:  # noqa: BLE001 -- a metaclass of the module's own
        return False
    return not is_near and not getattr(kind, "_is_protocol", False)
