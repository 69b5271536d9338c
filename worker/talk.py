"""What a client says to a node and makes of the answers, without a socket: a client only carries out the steps.

A conversation is a generator. It yields steps; what came of each is sent into it, and what it returns is the result.
"""

import os
from collections.abc import Generator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack

from chong.worker import client_errors as errors
from chong.worker.exchange import AnswerLateError, AnswerLostError, content_of, line_of
from chong.worker.group_outcome import GroupOutcome, group_outcome_of
from chong.worker.ids import new_id
from chong.worker.nearest import nearest
from chong.worker.outcome import Outcome, outcome_of
from chong.worker.plan import Call, Plan, PlanInvalid, check, to_json
from chong.worker.result import encode_params

ANSWER_SECONDS = 30.0
PATIENCE = 30.0
"""Seconds for which a node that has gone away in the middle of a conversation is waited for."""
PAUSE = 0.1


class Step(NamedTuple):
    """Send `line` and read an answer within so many seconds, None for any number; without a line, let them pass."""

    line: bytes | None
    seconds: float | None


Came = bytes | OSError | None
"""What came of a step: an answer, or why there is none; nothing of one that only passed the time."""
T = TypeVar("T")
Conversation = Generator[Step, Came, T]


class Wish(TypedDict, total=False):
    """What a submission may say beside the task's name; `Talk.submit` passes on whatever stands here.

    key: what the task works for. params: its parameters by name, JSON values. unique: refused while an unfinished task
    has the same. id: of the new task, to be able to submit it again after an error without running it twice.
    due_at: not to be started before, with a zone. priority, retries, run_timeout (in seconds): in place of the
    definition's.
    """

    key: str | None
    params: Mapping[str, Any]
    unique: str | None
    id: str
    due_at: datetime | None
    priority: int | None
    retries: int | None
    run_timeout: float | None


_FIELDS = {name: name for name in Wish.__annotations__} | {"unique": "unique_key"}
"""By what name the node knows each of them."""


class Talk:
    """With the node whose control socket this is, in the name of `issued_by`."""

    def __init__(self, path: Path, issued_by: str) -> None:
        self.path = path
        self._issued_by = issued_by

    def submit(self, name: str, timeout: float, **wish: Unpack[Wish]) -> Conversation[str]:
        """The id of the accepted task."""
        request = _submission(name, wish)
        task_id = str(request["id"])
        lost = f"whether it accepted task {task_id} is unknown; to submit it again with id={task_id!r} is safe"
        yield from self._ask(request, timeout, lost)
        return task_id

    def get(self, task_id: str, timeout: float) -> Conversation[Outcome]:
        answer = yield from self._ask({"op": "get", "id": task_id}, timeout, "nothing was changed")
        return _outcome(answer)

    def wait(self, task_id: str, timeout: float | None) -> Conversation[Outcome]:
        """How the task ended."""
        late = errors.NotEnded(f"task {task_id}: expected its end within {timeout} s, it is still open")
        answer = yield from self._ask({"op": "wait", "id": task_id}, timeout, "how the task ended is unknown", late)
        return _outcome(answer)

    def result(self, task_id: str, timeout: float | None) -> Conversation[Any]:
        """What the task returned; NoResult when it did not."""
        outcome = yield from self.wait(task_id, timeout)
        if outcome.status != "succeeded":
            raise errors.no_result(outcome)
        return outcome.result

    def stop(
        self, task_id: str, reason: str | None, timeout: float | None, *, wait: bool = False
    ) -> Conversation[Outcome]:
        """How it stands once the request is known to stand; with `wait` how it ended."""
        end = None if timeout is None else monotonic() + timeout
        request = {"op": "stop", "id": task_id, "by": self._issued_by, "reason": reason}
        within = ANSWER_SECONDS if timeout is None else timeout
        answer = yield from self._ask(request, within, "whether the stop was asked for is unknown; ask again")
        outcome = _outcome(answer)
        if wait and not outcome.is_final:
            outcome = yield from self.wait(task_id, None if end is None else max(0.0, end - monotonic()))
        return outcome

    def submit_group(self, plan: Plan, timeout: float, group_id: str | None) -> Conversation[str]:
        """The id of the accepted group."""
        request = {"op": "submit_group", "id": group_id or new_id(), "plan": _plan(plan)}
        again = f"to submit it again with group_id={request['id']!r} is safe"
        yield from self._ask(request, timeout, f"whether it accepted group {request['id']} is unknown; {again}")
        return str(request["id"])

    def get_group(self, group_id: str, timeout: float) -> Conversation[GroupOutcome]:
        answer = yield from self._ask({"op": "group", "id": group_id}, timeout, "nothing was changed")
        return _group_outcome(answer)

    def wait_group(self, group_id: str, timeout: float | None) -> Conversation[GroupOutcome]:
        """How the group ended."""
        late = errors.NotEnded(f"group {group_id}: expected its end within {timeout} s, it is still open")
        request = {"op": "wait_group", "id": group_id}
        answer = yield from self._ask(request, timeout, "how the group ended is unknown", late)
        return _group_outcome(answer)

    def stop_group(self, group_id: str, reason: str | None, timeout: float) -> Conversation[GroupOutcome]:
        """How it stands when all its members have been asked."""
        request = {"op": "stop_group", "id": group_id, "by": self._issued_by, "reason": reason}
        answer = yield from self._ask(request, timeout, "whether the stop was asked for is unknown; ask again")
        return _group_outcome(answer)

    def _ask(
        self, request: dict[str, Any], timeout: float | None, lost: str, late: errors.ClientError | None = None
    ) -> Conversation[dict[str, Any]]:
        """The facts of the answer. All requests may be repeated: whoever gets one twice does it once.

        lost: what it means that no answer came. late: what to raise when it does not come in time.
        """
        line = _line(request)
        end = None if timeout is None else monotonic() + timeout
        gone_at: float | None = None
        while True:
            began = monotonic()
            came = yield Step(line, None if end is None else max(0.001, end - began))
            if isinstance(came, bytes):
                return _facts(came)
            if isinstance(came, AnswerLateError):
                raise late or errors.NodeUnreachable(f"{self._who} did not answer within {timeout} s: {lost}") from came
            now = monotonic()
            if isinstance(came, AnswerLostError):
                gone_at = now if gone_at is None or now - began > PATIENCE else gone_at
            elif gone_at is None:
                raise errors.NodeUnreachable(self._unreachable(came)) from came
            if now - gone_at > PATIENCE or (end is not None and now >= end):
                raise errors.NodeUnreachable(f"{self._who} has gone away: {lost}") from came
            yield Step(None, PAUSE)

    @property
    def _who(self) -> str:
        return f"the supervisor at {self.path}"

    def _unreachable(self, error: OSError | None) -> str:
        if isinstance(error, PermissionError):
            return f"{self._who} does not talk to user {os.geteuid()}: {error.strerror}"
        return f"no supervisor answers at {self.path}; is chong-supervisor running on this machine?"


def _submission(name: str, wish: Wish) -> dict[str, Any]:
    request: dict[str, Any] = {"op": "submit", "name": name, "id": new_id(), "trigger": "event"}
    for option, value in wish.items():
        if option not in _FIELDS:
            guess = nearest(option, _FIELDS)
            hint = f", did you mean {guess}?" if guess else ""
            raise errors.RequestInvalid(f"submit: expected {', '.join(_FIELDS)}, got {option!r}{hint}")
        if value is not None:
            request[_FIELDS[option]] = value.isoformat() if isinstance(value, datetime) else value
    if "params" in request:
        request["params"] = _plain(request["params"])
    return request


def _plain(params: Any) -> dict[str, Any]:
    """By the rules of the node, which would refuse the rest as well, and cannot be told what is no JSON."""
    try:
        found = dict(params)
        encode_params(found)
    except (TypeError, ValueError) as error:
        raise errors.RequestInvalid(str(error)) from None
    return found


def _plan(plan: Plan) -> dict[str, Any]:
    try:
        check(plan)
        return to_json(_with_plain_params(plan))
    except PlanInvalid as error:
        raise errors.RequestInvalid(str(error)) from None


def _with_plain_params(part: Plan) -> Plan:
    if isinstance(part, Call):
        return replace(part, params=_plain(part.params))
    return replace(part, members=tuple(_with_plain_params(member) for member in part.members))


def _line(request: dict[str, Any]) -> bytes:
    try:
        return line_of(request)
    except ValueError as error:
        raise errors.RequestInvalid(str(error)) from None


def _facts(answer: bytes) -> dict[str, Any]:
    try:
        is_ok, content = content_of(answer)
    except ValueError as error:
        raise errors.Refused(str(error)) from None
    if not is_ok:
        raise errors.refusal(content)
    return content


def _outcome(answer: Mapping[str, Any]) -> Outcome:
    try:
        return outcome_of(answer["task"])
    except (KeyError, TypeError, AttributeError):
        raise errors.Refused(f"the supervisor's answer is not understood: {str(answer)[:100]}") from None


def _group_outcome(answer: Mapping[str, Any]) -> GroupOutcome:
    try:
        return group_outcome_of(answer["group"])
    except (KeyError, TypeError, AttributeError):
        raise errors.Refused(f"the supervisor's answer is not understood: {str(answer)[:100]}") from None
