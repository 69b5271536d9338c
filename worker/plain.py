"""Plain JSON, by this process's own encoder and decoder: `json.dumps`, `json.loads` and the classes behind them are
looked up anew in each call, and a task that replaces them would keep its own end from being told.
"""

from json import JSONDecoder, encoder
from typing import Any

_encode = encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, None, encoder.encode_basestring, None, ":", ",", False, False, False
)
_scan = JSONDecoder().scan_once  # type: ignore[attr-defined]
_BLANK = " \t\n\r"


def encode_plain(value: Any) -> str:
    """What is known to be plain JSON, without cycles; ValueError for a number that is not finite."""
    return "".join(_encode(value, 0))


def decode_plain(data: bytes) -> Any:
    """ValueError for what is no JSON in UTF-8, RecursionError for what nests too deeply."""
    text = data.decode().strip(_BLANK)
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        raise ValueError("expected JSON, got none") from None
    if end != len(text):
        raise ValueError("expected one JSON value, got more")
    return value
