"""The caller's end of a node's control socket, for `chong`: its errors are those of chong's tree."""

import os
from pathlib import Path
from typing import Any

from chong.store.errors import ChongError, ConfigurationError, Refused, StoreUnavailable
from chong.supervisor.submission import Submission, to_json
from chong.worker.exchange import AnswerLostError, content_of, exchange, line_of

ANSWER_SECONDS = 30.0
TRIES = 2
"""A second request with the same id is the same request, so one lost answer is simply asked for again."""

_ERRORS: dict[str, type[ChongError]] = {
    "refused": Refused,
    "configuration": ConfigurationError,
    "unavailable": StoreUnavailable,
}


class SupervisorUnreachable(Refused):
    """No supervisor answers at the control socket."""


def submit_over(
    socket_path: Path, submission: Submission, *, node: str | None = None, timeout: float = ANSWER_SECONDS
) -> dict[str, Any]:
    """Hand a submission over and return the accepted task; raises what the supervisor answered, as its error.

    SupervisorUnreachable when nobody answers within `timeout` seconds. `node` is only for that message.
    """
    request = {"op": "submit", **to_json(submission)}
    lost = f"whether it accepted task {submission.id} is unknown"
    answer = ask_node(socket_path, request, node=node, timeout=timeout, lost=lost)
    if not isinstance(answer.get("task"), dict):
        raise Refused(f"the supervisor's answer is not understood: {str(answer)[:100]}")
    return dict(answer["task"])


def ask_node(
    socket_path: Path,
    request: dict[str, Any],
    *,
    node: str | None = None,
    timeout: float = ANSWER_SECONDS,
    lost: str = "whether it was done is unknown",
) -> dict[str, Any]:
    """Ask a node's supervisor for an operation that may safely be asked for twice; returns the facts it answers.

    `lost` is what its silence means, for the error's text. Raises as `submit_over`.
    """
    try:
        line = line_of(request)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    for last in range(1, TRIES + 1):
        try:
            return _answered(exchange(socket_path, line, timeout))
        except OSError as error:
            if last == TRIES or not isinstance(error, AnswerLostError):
                raise SupervisorUnreachable(_unreachable(socket_path, node, lost, error)) from error
    raise AssertionError("the last try returns or raises")


def _unreachable(path: Path, node: str | None, lost: str, error: OSError) -> str:
    who = f"supervisor of node {node}" if node else "supervisor"
    if isinstance(error, AnswerLostError):
        return f"the {who} at {path} did not answer: {lost}"
    if isinstance(error, PermissionError):
        return f"the {who} at {path} does not talk to user {os.geteuid()}: {error.strerror}"
    return f"no {who} answers at {path}; is chong-supervisor running on this machine?"


def _answered(answer: bytes) -> dict[str, Any]:
    try:
        is_ok, content = content_of(answer)
        error = None if is_ok else _ERRORS[content["code"]](str(content["error"]))
    except (ValueError, KeyError, TypeError):
        raise Refused(f"the supervisor's answer is not understood: {answer[:100]!r}") from None
    if error is not None:
        raise error
    return content
