"""What a parameter takes is decided twice, by words in the supervisor and by the annotation in the worker: the same."""

import dataclasses
import enum
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional, Required, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chong.supervisor.signature import Types, types_from_json
from chong.worker.conversion import Conversion, Unfit


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Grade(enum.IntEnum):
    ONE = 1
    TWO = 2


class Lenient(enum.Enum):
    ANY = "any"

    @classmethod
    def _missing_(cls, value):
        return cls.ANY


@dataclasses.dataclass(frozen=True)
class Page:
    start: int
    level: Level = Level.LOW
    tags: tuple[str, ...] = ()
    next: Optional["Page"] = None


class Point(NamedTuple):
    x: float
    y: Grade = Grade.ONE


class Row(TypedDict, total=False):
    key: Required[UUID]
    pages: list[Page]


class Foreign:
    pass


Name = NewType("Name", str)
LEAVES = [
    int, float, bool, str, bytes, date, datetime, time, timedelta, Decimal, UUID, pathlib.Path, Name, Any, object,
    type(None), Level, Grade, Lenient, Literal["a", "b", 1], Page, Point, Row, list, dict, set, tuple,
    Mapping[str, int],
]  # fmt: skip
KEYS = st.sampled_from([str, int, float, date, UUID, pathlib.Path, Level, Grade, Any, int | str])
"""What a dict may have as keys."""


def may_be_in_a_set(hint: Any) -> bool:
    """Whether an instance of a class can be told apart for good only its code knows."""
    return hint in (Page, Point) or not any(kind.__name__ in repr(hint) for kind in (Page, Point, Row))


def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(lambda hint: list[hint]),
        inner.filter(may_be_in_a_set).map(lambda hint: set[hint]),
        inner.filter(may_be_in_a_set).map(lambda hint: frozenset[hint]),
        inner.map(lambda hint: tuple[hint, ...]),
        inner.map(lambda hint: Optional[hint]),  # noqa: UP045 - not every hint knows the operator
        st.tuples(inner, inner).map(lambda pair: tuple[pair]),
        st.tuples(KEYS, inner).map(lambda pair: dict[pair]),
        st.tuples(st.sampled_from([int, bool, float]), inner).map(lambda pair: pair[0] | pair[1] | list[int]),
    )


HINTS = st.recursive(st.sampled_from(LEAVES), wider, max_leaves=4)
TEXTS = [
    "", "a", "low", "1", "2026-12-01", "2026-12-01T06:00:00Z", "06:30:00", "PT5S", "1.50", "QQ==", "null", "/a",
    "12345678-1234-5678-1234-567812345678", "key", "start", "NaN", "1e400", "true",
]  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, 1, 2, 1.0]), st.sampled_from(TEXTS),
)  # fmt: skip
OBJECTS = st.one_of(
    st.fixed_dictionaries({"start": st.sampled_from([1, "1"])}, optional={"level": st.sampled_from(["low", 1])}),
    st.fixed_dictionaries({"key": st.sampled_from(TEXTS[-6:])}, optional={"pages": st.just([{"start": 1}])}),
    st.just({"start": 1, "next": {"start": 2, "next": None}}),
)
JSON = st.recursive(
    SCALARS | OBJECTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(TEXTS), inner, max_size=2),
    max_leaves=6,
)


def typed(hint: Any, default: Any = ...) -> tuple[Types, Conversion]:
    """Of a task with the one parameter `p`."""

    def run(ctx, p): ...

    run.__annotations__ = {"p": hint}
    run.__defaults__ = None if default is ... else (default,)
    conversion = Conversion(run)
    return types_from_json(json.loads(json.dumps(conversion.described))), conversion


def refusal(act: Callable[[], Any]) -> str | None:
    try:
        act()
    except (ValueError, Unfit) as refused:
        return str(refused)
    return None


def instances(hint: Any) -> st.SearchStrategy[Any]:
    """Of the type, as JSON; of those that take anything, anything."""
    if re.search(r"Any|object|Path|Mapping|\b(list|set|tuple|dict)\b(?!\[)", repr(hint)):
        return JSON
    return st.from_type(hint).map(lambda value: json.loads(msgspec.json.encode(value)))


CASES = HINTS.flatmap(lambda hint: st.tuples(st.just(hint), JSON | instances(hint)))


@settings(max_examples=150)
@given(CASES)
def test_supervisor_and_worker_are_of_one_mind(case):
    """Of whatever type and value; but for a field that a class has not, which the worker would drop in silence."""
    hint, value = case
    types, conversion = typed(hint)
    above = refusal(lambda: types.read({"p": value}, {}))
    below = refusal(lambda: conversion.convert({"p": value}))
    if above is None or "got an unknown" not in above:
        assert (above is None, above) == (below is None, above), below


@given(HINTS, st.sampled_from(TEXTS) | st.text() | JSON.map(json.dumps))
def test_what_was_typed_is_kept_as_json_that_the_worker_takes(hint, text):
    """Whatever is made of it is JSON, and is what the annotation says."""
    types, conversion = typed(hint)
    try:
        kept = types.read({}, {"p": text})
    except ValueError:
        return
    assert json.loads(json.dumps(kept)) == kept or text in {"NaN", "Infinity", "-Infinity", "1e400"}
    conversion.convert(kept)


@pytest.mark.parametrize(
    ("hint", "text", "kept"),
    [
        (str, "5", "5"), (str, "null", "null"), (str | None, "true", "true"), (str, "", ""), (pathlib.Path, "1", "1"),
        (int, "5", 5), (int, "1e3", 1000), (float, "5", 5), (float, "2.5", 2.5), (int | None, "null", None),
        (bool, "true", True), (bool, "True", True), (bool, "0", False),
        (date, "2026-12-01", "2026-12-01"), (date | None, "null", None), (date, '"2026-12-01"', "2026-12-01"),
        (timedelta, "1h30m", "PT5400S"), (timedelta | None, "90", "PT90S"), (timedelta, "PT5S", "PT5S"),
        (Decimal, "0.10000000000000000555", "0.10000000000000000555"),
        (list[int], "[1, 2]", [1, 2]), (dict[str, int], '{"a": 1}', {"a": 1}), (set[int], "[1, 1]", [1, 1]),
        (Level, "low", "low"), (Grade, "2", 2), (Literal["1", 2], "1", "1"), (Literal["1", 2], "2", 2),
        (int | str, "5", 5), (int | str, "05", "05"), (int | str, "true", "true"),
        (Page, '{"start": 1}', {"start": 1}), (Any, "5", 5), (Any, "x", "x"),
        (date | str, "2026-12-01", "2026-12-01"), (date | str, "5", 5),
    ],
)  # fmt: skip
def test_a_text_is_read_by_the_annotation(hint, text, kept):
    """Text stays text where text is expected, and is JSON elsewhere."""
    types, _ = typed(hint)
    read = types.read({}, {"p": text})["p"]
    assert (read, type(read)) == (kept, type(kept))


@pytest.mark.parametrize(
    ("hint", "value", "said"),
    [
        (int, "a", "expected int at p, got str"),
        (int, 5.5, "expected int at p, got float 5.5"),
        (int, True, "expected int at p, got bool"),
        (int | None, "a", "expected int or null at p, got str"),
        (int, None, "expected int at p, got null"),
        (list[int], [1, 2, "3"], "expected int at p[2], got str"),
        (list[Page], [{"start": 1, "next": {"start": "x"}}], "expected int at p[0].next.start, got str"),
        (Page, {"stat": 1}, "'next' of Page at p, got an unknown 'stat', did you mean 'start'?"),
        (Page, {}, "expected 'start' of Page at p, got none"),
        (Page | None, [], "expected dict for Page or null at p, got list"),
        (dict[str, list[int]], {"a b": [1, "x"]}, "expected int at p['a b'][1], got str"),
        (dict[int, int], {"x": 1}, "expected keys that are int at p, got 'x'"),
        (Level, "hihg", "expected one of 'low', 'high' at p, got 'hihg', did you mean 'high'?"),
        (Grade, 3, "expected one of 1, 2 at p, got 3"),
        (date, "2026-02-30", "expected a date like 2026-12-31 at p, got '2026-02-30'"),
        (tuple[int, str], [1], "expected list of 2 at p, got 1"),
        (Point, [1, 2, 3], "expected list of 1 to 2 at p, got 3"),
        (set[Any], [[1]], "expected a list whose items are no lists and no dicts at p, got one"),
        (int | list[int], ["x"], "expected int at p[0], got str"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_place(hint, value, said):
    """Expected, where, got, and the nearest choice."""
    types, _ = typed(hint)
    assert said in (refusal(lambda: types.read({"p": value}, {})) or "")


@pytest.mark.parametrize(
    ("hint", "value"),
    [(int, "secret"), (list[Level], ["secret"]), (dict[str, int], {"secret": "secret"}), (UUID, "secret"),
     (dict[int, int], {"secret": 1}), (Page, {"start": "secret"}), (Literal["a"], "secret"), (pathlib.Path, 7)],
)  # fmt: skip
def test_a_workers_refusal_names_no_value(hint, value):
    """It becomes a failure's message, which every reader of the shared store sees."""
    _, conversion = typed(hint)
    said = refusal(lambda: conversion.convert({"p": value}))
    assert said is not None
    assert "secret" not in said
    assert " at p" in said


def test_limits_of_an_annotation_hold():
    """Those that can be said in words; a pattern is the worker's matter."""
    types, _ = typed(Annotated[int, msgspec.Meta(ge=1)])
    assert refusal(lambda: types.read({"p": 0}, {})) == "expected int (ge 1) at p, got int 0"
    assert types.read({}, {"p": "1"}) == {"p": 1}


@pytest.mark.parametrize(
    "hint", [Iterable[int], date | str, Foreign, list[Foreign], "Nowhere", "a count", 5, Callable[[], int]]
)
def test_what_cannot_be_described_is_left_as_it_is(hint):
    """A default says that the task can do without it; tasks that were written before go on working."""
    types, conversion = typed(hint, default=7)
    assert (types.unchecked, conversion.fault) == (("p",), "")
    assert types.read({"p": [1]}, {}) == conversion.convert({"p": [1]}) == {"p": [1]}


@pytest.mark.parametrize(
    ("hint", "is_fault"), [(Foreign, True), (Iterable[int], False), (date | str, False), ("X", False)]
)
def test_what_nobody_can_fill_is_a_fault(hint, is_fault):
    """Such a task could only fail."""
    _, conversion = typed(hint)
    assert conversion.fault.startswith("parameter 'p': expected a type that JSON can fill, got ") == is_fault


def test_a_default_of_none_says_that_null_is_taken():
    """As Python's own rule had it for years."""
    types, conversion = typed(int, default=None)
    assert conversion.convert(types.read({"p": None}, {})) == {"p": None}


def test_other_parameters_are_of_the_type_of_the_rest():
    """Those that have a name of their own are not, whether they are annotated or not."""

    def run(ctx, plain, odd: "Nowhere", n: str = "", **more: int): ...  # noqa: F821

    conversion = Conversion(run)
    types = types_from_json(json.loads(json.dumps(conversion.described)))
    params = {"plain": "x", "odd": "x", "n": "1", "z": 1}
    assert conversion.convert(types.read(params, {})) == params
    assert refusal(lambda: types.read({"z": "x"}, {})) == "expected int at z, got str"
    assert refusal(lambda: conversion.convert({"z": "x"})) == "expected int at z, got str"
