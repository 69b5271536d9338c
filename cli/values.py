"""What the values of options may look like; each refusal says what was expected and what was got."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from chong.cli.times import utc_now
from chong.store.errors import ConfigurationError
from chong.store.ids import is_id
from chong.store.states import Status
from chong.supervisor.jsontext import refuse_constant
from chong.supervisor.nearest import suggestion
from chong.worker.duration import parse_duration


def reads(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback for `click.option` that reads each value; its ValueError becomes a usage error."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            if isinstance(value, tuple):
                return tuple(read(item) for item in value)
            return None if value is None else read(value)
        except (ValueError, ConfigurationError) as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return callback


def read_status(text: str) -> Status:
    choices = [status.value for status in Status]
    if text not in choices:
        advice = suggestion(text, choices, f"expected one of {', '.join(choices)}")
        raise ValueError(f"unknown status {text!r}; {advice}")
    return Status(text)


def read_group(text: str) -> str:
    if not is_id(text):
        raise ValueError(f"expected the whole id of a group, as `chong submit-group` prints it, got {text[:60]!r}")
    return text


def read_duration(text: str) -> float:
    return parse_duration(text)


def read_age(text: str) -> timedelta:
    try:
        return timedelta(seconds=parse_duration(text))
    except OverflowError:
        raise ValueError(f"expected a length of time of less than a million years, got {text[:40]!r}") from None


def read_moment(text: str) -> datetime:
    """A length of time before now, or a time; one without a zone is UTC, as everything that chong prints."""
    for read in (_before_now, _iso):
        try:
            return read(text)
        except (ValueError, OverflowError):
            continue
    raise ValueError(f'expected a length of time like "2h" or an ISO 8601 time, got {text[:40]!r}')


def _before_now(text: str) -> datetime:
    return utc_now() - timedelta(seconds=parse_duration(text))


def _iso(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def read_params(document: str | None) -> dict[str, Any]:
    """The parameters of a submission, as a JSON object."""
    if document is None:
        return {}
    try:
        content = json.loads(document, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"--params: expected a JSON object, got text that is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"--params: expected a JSON object, got {type(content).__name__}")
    return content


def read_texts(assignments: Iterable[str]) -> dict[str, str]:
    """Parameters as `name=value`; what a value stands for only the node knows, which has the task's signature.

    Each name once: of two values nobody can tell here whether they are two items of a list, or one too many.
    """
    texts: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not name or not equals:
            raise ConfigurationError(f"-p: expected name=value, got {assignment[:60]!r}")
        if name in texts:
            raise ConfigurationError(f"-p: expected each name once and a list as {name}=[...], got {name!r} twice")
        texts[name] = value
    return texts
