"""A request to run a task, as it travels over the control socket and lies in the state directory."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from chong.store.errors import ConfigurationError
from chong.store.ids import SHOWN, is_id, new_id
from chong.worker.options import KEY_LIMIT, NAME_LIMIT
from chong.worker.result import encode_params

REASON_LIMIT = 500
"""Characters of the words that somebody gives with a request."""
PRIORITY_MOST = 1_000_000
RETRIES_MOST = 1_000_000
TIMEOUT_MOST = 365 * 86_400.0
"""Seconds."""
_TERMS = ("due_at", "priority", "retries", "run_timeout", "texts", "group_id")
_CONTROL = ("Cc", "Cs")  # control characters and lone surrogates


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """`id` is made by whoever submits, so that a request whose answer was lost can be sent again.

    due_at: not to be started before. priority, retries, run_timeout (in seconds): in place of the definition's.
    texts: parameters as somebody has typed them, beside `params` or in their places. The node makes JSON of them by the
    signature of the task, before it keeps the submission. group_id: the group that it is a member of, which the node
    alone says.

    Raises ConfigurationError when a field is out of bounds; whether the node may take it is asked later.
    """

    name: str
    key: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    unique_key: str | None = None
    trigger: str = "manual"
    id: str = field(default_factory=new_id)
    due_at: datetime | None = None
    priority: int | None = None
    retries: int | None = None
    run_timeout: float | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    group_id: str | None = None

    def __post_init__(self) -> None:
        check_id("id", self.id)
        if self.group_id is not None:
            check_id("group_id", self.group_id)
        check_text("task name", self.name, NAME_LIMIT)
        if self.key is not None:
            check_text("key", self.key, KEY_LIMIT)
        if self.unique_key is not None:
            check_text("unique key", self.unique_key, KEY_LIMIT)
        check_text("trigger", self.trigger, NAME_LIMIT)
        _check_params(self.params)
        _check_terms(self)
        if self.texts:
            _check_texts(self.texts)


def check_id(what: str, value: object) -> None:
    if not isinstance(value, str) or not is_id(value):
        raise ConfigurationError(f"{what}: expected a lower-case UUID, got {str(value)[:SHOWN]!r}")


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


def _check_terms(submission: Submission) -> None:
    """When, and under which limits, it is to run."""
    due = submission.due_at
    if due is not None and (not isinstance(due, datetime) or due.tzinfo is None):
        raise ConfigurationError(f"due_at: expected a time with a zone, got {str(due)[:60]!r}")
    _check_whole("priority", submission.priority, -PRIORITY_MOST, PRIORITY_MOST)
    _check_whole("retries", submission.retries, 0, RETRIES_MOST)
    timeout = submission.run_timeout
    if timeout is not None and not (type(timeout) in (int, float) and 0 < timeout <= TIMEOUT_MOST):
        raise ConfigurationError(f"run_timeout: expected seconds above 0 and up to {TIMEOUT_MOST:.0f}, got {timeout!r}")


def _check_whole(what: str, value: object, least: int, most: int) -> None:
    if value is not None and not (type(value) is int and least <= value <= most):
        got = repr(value)[:60]
        raise ConfigurationError(f"{what}: expected a whole number from {least} to {most}, got {got}")


def _check_texts(texts: object) -> None:
    _check_params(texts)
    for name, text in dict(cast("Mapping[str, object]", texts)).items():
        if not isinstance(text, str):
            raise ConfigurationError(f"texts: expected text for {name[:60]!r}, got {type(text).__name__}")


def to_json(submission: Submission) -> dict[str, Any]:
    """Terms that are not said, and texts where there are none, are left out: an older version knows nothing of them."""
    said = {name: getattr(submission, name) for name in Submission.__dataclass_fields__}
    if submission.due_at is not None:
        said["due_at"] = submission.due_at.isoformat()
    return {name: value for name, value in said.items() if name not in _TERMS or value not in (None, {})}


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
    due = content.get("due_at")
    return Submission(**content if due is None else content | {"due_at": _moment(due)})


def _moment(text: object) -> datetime:
    try:
        moment = datetime.fromisoformat(str(text))
        if moment.tzinfo is None:
            raise ValueError("no zone")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        expected = "an ISO 8601 time with a zone"
        raise ConfigurationError(f"due_at: expected {expected}, got {str(text)[:60]!r}") from None
