import json
import math
from collections import OrderedDict
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chong.worker.result import ResultInvalid, ResultTooLarge, encode_result, encode_state

whole = st.integers(-(2**63) + 1, 2**63 - 1)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | whole | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=20,
)
anything = st.recursive(
    st.none() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers() | st.datetimes(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


class Colour(IntEnum):
    RED = 1


class Sly(dict):
    def items(self) -> Any:
        raise RuntimeError("called")

    __iter__ = __len__ = items


class SlyText(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("called")

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return False

    __repr__ = isascii = encode = __contains__ = __str__


class NoName(type):
    @property
    def __name__(cls) -> str:
        raise RuntimeError("called")


class Nameless(metaclass=NoName):
    def __class__(self) -> type:  # type: ignore[override]
        raise RuntimeError("called")


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE


@given(values)
def test_what_is_accepted_comes_back_equal(value):
    """What is stored is what the task returned, not something close to it."""
    assert json.loads(encode_result(value)) == value


@given(anything)
@settings(max_examples=200)
def test_everything_else_is_invalid_and_nothing_else(value):
    """Any other error would look like one of the task's, and NaN is no JSON that PostgreSQL takes."""
    try:
        text = encode_result(value)
    except (ResultInvalid, ResultTooLarge):
        return
    assert "NaN" not in json.dumps(json.loads(text))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1, (2, "three")), '[1,[2,"three"]]'),
        (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
        (Colour.RED, "1"),
        (True, "true"),
        (2**63 - 1, str(2**63 - 1)),
        ("\x01é\u2028", '"\\u0001é\u2028"'),
        (Sly(a=1), '{"a":1}'),
    ],
)
def test_subclasses_are_read_by_their_built_in_types(value, text):
    """Their own methods are user code, which might raise, lie or never return."""
    assert encode_result(value) == text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "result: expected a finite number, got nan"),
        ({"a": [1, 2, 3, -math.inf]}, 'result["a"][3]: expected a finite number, got -inf'),
        (2**63, "result: expected a whole number of 64 bits, got one of 64"),
        (b"bytes", "result: expected a JSON value, got bytes"),
        ({1, 2}, "result: expected a JSON value, got set"),
        (Nameless(), "result: expected a JSON value, got Nameless"),
        ([{"k": "a\0"}], 'result[0]["k"]: expected text without NUL'),
        ("\ud800", "result: expected text, got a lone surrogate"),
        ({"\udfff": 1}, "result: expected text, got a lone surrogate"),
        ({1: 2}, "result: expected keys of type str, got int"),
        ({None: 2}, "result: expected keys of type str, got NoneType"),
        (nested(101), "expected at most 100 levels"),
        (nested(100_000), "expected at most 100 levels"),
        (CYCLE, "expected at most 100 levels"),
    ],
)
def test_what_one_store_would_refuse_is_invalid_for_all(value, words):
    """A task must not fail on the day when its deployment moves to another backend."""
    with pytest.raises(ResultInvalid) as caught:
        encode_result(value)
    assert words in str(caught.value)


def test_a_text_that_lies_about_itself_is_read_as_text():
    """Each of its methods raises when called, so none is."""
    assert encode_result([SlyText("sly"), {SlyText("a"): 1}]) == '["sly",{"a":1}]'


def test_a_number_too_long_to_be_written_is_invalid():
    """Python itself refuses to print it, so the message gives its length in bits."""
    with pytest.raises(ResultInvalid, match="got one of 16610"):
        encode_result(10**5000)


def test_keys_that_collide_as_json_are_invalid():
    """One of the two values would be lost without a word."""
    with pytest.raises(ResultInvalid, match=r'result\["a"\]: expected keys that differ as JSON'):
        encode_result({SlyText("a"): 1, "a": 2})


def test_a_hundred_levels_are_allowed():
    """The bound itself is good, and no reader's recursion ends below it."""
    assert encode_result(nested(100)) == "[" * 100 + "1" + "]" * 100


@pytest.mark.parametrize("value", ["x" * (1 << 20), "é" * (1 << 19), ["\x01"] * 150_000, [None] * 300_000])
def test_the_limit_is_one_of_encoded_bytes(value):
    """What matters is what the store has to keep, not how many characters or items it was."""
    with pytest.raises(ResultTooLarge, match="result: expected at most 1048576 bytes of JSON"):
        encode_result(value)


def test_a_mebibyte_less_its_quotes_is_accepted():
    """The bound itself is good."""
    assert len(encode_result("x" * ((1 << 20) - 2))) == 1 << 20


def test_a_state_has_the_smaller_limit_and_its_own_name():
    """It is written again and again, and its error should not speak of a result."""
    with pytest.raises(ResultTooLarge, match="state: expected at most 262144 bytes"):
        encode_state("x" * (256 << 10))
    with pytest.raises(ResultInvalid, match=r'state\["a"\]: expected a JSON value, got object'):
        encode_state({"a": object()})
