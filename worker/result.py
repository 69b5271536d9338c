"""JSON at the worker's edge: one validator, so that a value meets the same verdict whatever the store."""

import math
from typing import Any, TypeVar

from chong.worker.plain import encode_plain

RESULT_LIMIT = 1024 * 1024
STATE_LIMIT = 256 * 1024
PARAMS_LIMIT = 256 * 1024
DEPTH_LIMIT = 100
INT_LIMIT = 2**63
PLACE_LIMIT = 200

Steps = tuple[Any, ...]
"""The keys and indexes that lead to a value within the whole."""
Value = TypeVar("Value")


class ResultInvalid(ValueError):  # noqa: N818 -- a verdict
    """The value is no JSON that every store takes; the text names the place, what was expected and what was got."""


class ResultTooLarge(ValueError):  # noqa: N818 -- a verdict
    """The value's JSON is longer than its limit."""


def encode_result(value: Any) -> str:
    """A task's result as JSON text; ResultInvalid or ResultTooLarge, and never another error."""
    return _encode(value, "result", RESULT_LIMIT)


def encode_state(value: Any) -> str:
    """A checkpoint's state as JSON text, by the same rules within a smaller limit."""
    return _encode(value, "state", STATE_LIMIT)


def encode_params(value: Any) -> str:
    """A submission's parameters as JSON text, by the same rules."""
    return _encode(value, "parameters", PARAMS_LIMIT)


def _encode(value: Any, root: str, limit: int) -> str:
    plain = _Copy(root, limit).of(value, ())
    text = encode_plain(plain)
    size = len(text) if text.isascii() else len(text.encode())
    if size > limit:
        raise ResultTooLarge(f"{root}: expected at most {limit} bytes of JSON, got {size}")
    return text


class _Copy:
    """A copy made of exact built-in types: what a subclass overrides is never called."""

    def __init__(self, root: str, limit: int) -> None:
        self._root = root
        self._limit = limit
        self._least = 0  # a lower bound of the text's length, so that 100 MB are refused before they are encoded

    def of(self, value: Any, steps: Steps) -> Any:
        if value is None or value is True or value is False:
            return self._counted(value, 4)
        kind = type(value)
        if issubclass(kind, str):
            return self._text(value, steps)
        if issubclass(kind, int):
            return self._whole(value, steps)
        if issubclass(kind, float):
            return self._real(value, steps)
        if len(steps) >= DEPTH_LIMIT and issubclass(kind, dict | list | tuple):
            raise self._invalid(steps[:3], f"expected at most {DEPTH_LIMIT} levels, got more")
        if issubclass(kind, dict):
            return self._pairs(value, steps)
        if issubclass(kind, list):
            return [self.of(item, (*steps, index)) for index, item in enumerate(list.__iter__(self._seen(value)))]
        if issubclass(kind, tuple):
            return [self.of(item, (*steps, index)) for index, item in enumerate(tuple.__iter__(value))]
        raise self._invalid(steps, f"expected a JSON value, got {_type_name(kind)}")

    def _text(self, value: str, steps: Steps) -> str:
        text = str.__str__(value) if type(value) is str else str.__add__(value, "")
        self._counted(None, len(text) + 2)
        if "\0" in text:
            raise self._invalid(steps, "expected text without NUL, got one")
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise self._invalid(steps, "expected text, got a lone surrogate") from None
        return text

    def _whole(self, value: int, steps: Steps) -> int:
        number = int.__add__(value, 0)
        if not -INT_LIMIT < number < INT_LIMIT:
            raise self._invalid(steps, f"expected a whole number of 64 bits, got one of {number.bit_length()}")
        return self._counted(number, 1)

    def _real(self, value: float, steps: Steps) -> float:
        number = float.__float__(value)
        if not math.isfinite(number):
            raise self._invalid(steps, f"expected a finite number, got {number!r}")
        return self._counted(number, 3)

    def _pairs(self, value: dict[Any, Any], steps: Steps) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for key, item in dict.items(value):
            if not issubclass(type(key), str):
                raise self._invalid(steps, f"expected keys of type str, got {_type_name(type(key))}")
            name = self._text(key, steps)
            if name in plain:
                raise self._invalid((*steps, name), "expected keys that differ as JSON, got this one twice")
            plain[name] = self.of(item, (*steps, name))
        return self._counted(plain, 2)

    def _seen(self, value: list[Any]) -> list[Any]:
        return self._counted(value, 2)

    def _counted(self, value: Value, least: int) -> Value:
        self._least += least
        if self._least > self._limit:
            raise ResultTooLarge(f"{self._root}: expected at most {self._limit} bytes of JSON, got more")
        return value

    def _invalid(self, steps: Steps, reason: str) -> ResultInvalid:
        place = "".join(f"[{step}]" if isinstance(step, int) else f'["{_short(step)}"]' for step in steps)
        return ResultInvalid(f"{self._root}{_shortened(place)}: {reason}")


def _short(step: str) -> str:
    return step[:40].encode("ascii", "backslashreplace").decode()


def _shortened(place: str) -> str:
    return place if len(place) <= PLACE_LIMIT else f"{place[:PLACE_LIMIT]}…"


def _type_name(kind: type) -> str:
    return str(type.__dict__["__name__"].__get__(kind))[:100].encode("ascii", "backslashreplace").decode()
