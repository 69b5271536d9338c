"""A request to run a task, as it travels over the control socket and lies in the state directory."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from chong.store.errors import ConfigurationError
from chong.store.ids import is_id, new_id
from chong.worker.options import KEY_LIMIT, NAME_LIMIT
from chong.worker.result import encode_params

REASON_LIMIT = 500
"""Characters of the words that somebody gives with a request."""
_CONTROL = ("Cc", "Cs")  # control characters and lone surrogates


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """`id` is made by whoever submits, so that a request whose answer was lost can be sent again.

    texts: parameters as somebody has typed them, beside `params` or in their places. The node makes JSON of them by the
    signature of the task, before it keeps the submission. Raises ConfigurationError when a field is out of bounds;
    whether the node may take it is asked later.
    """

    name: str
    key: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    unique_key: str | None = None
    trigger: str = "manual"
    id: str = field(default_factory=new_id)
    texts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not is_id(self.id):
            raise ConfigurationError(f"id: expected a lower-case UUID, got {str(self.id)[:60]!r}")
        check_text("task name", self.name, NAME_LIMIT)
        if self.key is not None:
            check_text("key", self.key, KEY_LIMIT)
        if self.unique_key is not None:
            check_text("unique key", self.unique_key, KEY_LIMIT)
        check_text("trigger", self.trigger, NAME_LIMIT)
        _check_params(self.params)
        if self.texts:
            _check_texts(self.texts)


def check_text(what: str, value: object, limit: int) -> None:
    """One printable line of 1 to `limit` characters, or ConfigurationError."""
    fault = fault_of_text(value, limit)
    if fault is not None:
        raise ConfigurationError(f"{what}: {fault}")


def fault_of_text(value: object, limit: int) -> str | None:
    """What keeps `value` from being one printable line of 1 to `limit` characters: expected and got."""
    if not isinstance(value, str):
        return f"expected text, got {type(value).__name__}"
    if not 1 <= len(value) <= limit:
        return f"expected 1 to {limit} characters, got {len(value)}"
    bad = next((char for char in value if unicodedata.category(char) in _CONTROL), None)
    return None if bad is None else f"expected no control characters, got {bad!r}"


def _check_params(params: object) -> None:
    if not isinstance(params, Mapping) or not all(isinstance(name, str) for name in params):
        raise ConfigurationError(f"parameters: expected a JSON object, got {type(params).__name__}")
    try:
        encode_params(params)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def _check_texts(texts: object) -> None:
    _check_params(texts)
    for name, text in dict(cast("Mapping[str, object]", texts)).items():
        if not isinstance(text, str):
            raise ConfigurationError(f"texts: expected text for {name[:60]!r}, got {type(text).__name__}")


def to_json(submission: Submission) -> dict[str, Any]:
    """Without texts, where there are none."""
    content = {name: getattr(submission, name) for name in Submission.__dataclass_fields__}
    return content if submission.texts else {name: value for name, value in content.items() if name != "texts"}


def from_json(content: object) -> Submission:
    """Raises ConfigurationError for anything that is not a submission's JSON object."""
    if not isinstance(content, dict):
        raise ConfigurationError(f"submission: expected a JSON object, got {type(content).__name__}")
    known = Submission.__dataclass_fields__
    strangers = sorted(set(content) - set(known))
    if strangers:
        raise ConfigurationError(
            f"submission: expected {', '.join(known)}, got {', '.join(map(repr, strangers))[:100]}"
        )
    if "name" not in content:
        raise ConfigurationError("submission: expected a name, got none")
    return Submission(**content)
