"""Groups and pipelines as their authors write them: calls of tasks, side by side or one after the other.

    pipeline([
        call("orders.fetch", params={"day": "2026-12-31"}),
        group([call("orders.sum", into="orders"), call("orders.check", into="orders")], fail_fast=True),
        call("orders.mail", into="parts"),
    ])

The same classes read what travels as JSON: whatever they take, a node takes, and the other way round.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chong.worker.nearest import nearest
from chong.worker.result import DEPTH_LIMIT

MEMBERS_LIMIT = 10_000
"""Calls in one plan: as many as may wait on a node."""
LEVELS_LIMIT = DEPTH_LIMIT // 4
"""Groups and pipelines within each other."""


class PlanInvalid(ValueError):  # noqa: N818 - a verdict
    """No plan; says where, what was expected and what was got."""


@dataclass(frozen=True, slots=True)
class Call:
    """One task to be run; made by `call`, which says what the fields mean."""

    name: str
    key: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    into: str | None = None
    priority: int | None = None
    retries: int | None = None
    run_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Members that run side by side; made by `group`."""

    members: tuple["Plan", ...]
    fail_fast: bool = False
    max_parallel: int | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Members that run one after the other; made by `pipeline`."""

    members: tuple["Plan", ...]


Plan = Call | Group | Pipeline

_TERMS = ("key", "params", "into", "priority", "retries", "run_timeout")


def call(
    name: str,
    *,
    key: str | None = None,
    params: Mapping[str, Any] | None = None,
    into: str | None = None,
    priority: int | None = None,
    retries: int | None = None,
    run_timeout: float | None = None,
) -> Call:
    """A task to be run, as `Client.submit` takes it.

    into: the parameter that is handed the result of the pipeline's member before this one; of a group that is the list
    of its members' results, of a pipeline the result of its last member.
    """
    return Call(name, key, dict(params or {}), into, priority, retries, run_timeout)


def group(members: Iterable[Plan], *, fail_fast: bool = False, max_parallel: int | None = None) -> Group:
    """Members that run side by side, `max_parallel` of them at one time; it succeeds when all of them do.

    fail_fast: as soon as anything in it is `failed` or `lost`, all else in it is stopped.
    """
    return Group(tuple(members), fail_fast, max_parallel)


def pipeline(members: Iterable[Plan]) -> Pipeline:
    """Members that run one after the other. One that does not succeed is the last: those behind it are cancelled."""
    return Pipeline(tuple(members))


def check(plan: Any) -> None:
    """PlanInvalid for what no node would take as a plan, whatever its tasks are."""
    if not isinstance(plan, Group | Pipeline):
        hint = "; a single call is submitted as a task" if isinstance(plan, Call) else ""
        raise PlanInvalid(f"plan: expected a group or a pipeline, got {type(plan).__name__}{hint}")
    left = MEMBERS_LIMIT
    for place, part, level, may_take in _walk(plan):
        if level > LEVELS_LIMIT:
            # Which is where a plan that contains itself ends, too.
            raise PlanInvalid(f"plan: expected at most {LEVELS_LIMIT} levels, got more; does it contain itself?")
        _check_part(place, part, may_take=may_take)
        left -= isinstance(part, Call)
        if left < 0:
            raise PlanInvalid(f"plan: expected at most {MEMBERS_LIMIT} calls, got more")


def calls_of(plan: Plan) -> Iterator[Call]:
    """In the order in which they are written, by which they are numbered."""
    return (part for _, part, _, _ in _walk(plan) if isinstance(part, Call))


def _walk(plan: Plan) -> Iterator[tuple[str, Plan, int, bool]]:
    """Each part, with its place, its level, and whether a result comes before it. Without recursion."""
    stack: list[tuple[str, Plan, int, bool]] = [("plan", plan, 0, False)]
    while stack:
        place, part, level, may_take = stack.pop()
        yield place, part, level, may_take
        if isinstance(part, Group | Pipeline):
            turns = isinstance(part, Pipeline)
            inner = [
                (f"{place}[{at}]", member, level + 1, may_take or (turns and at > 0))
                for at, member in enumerate(part.members)
            ]
            stack += reversed(inner)


def _check_part(place: str, part: Any, *, may_take: bool) -> None:
    if isinstance(part, Call):
        _check_call(place, part, may_take=may_take)
    elif not isinstance(part, Group | Pipeline):
        raise PlanInvalid(f"{place}: expected a call, a group or a pipeline, got {type(part).__name__}")
    elif not part.members:
        raise PlanInvalid(f"{place}: expected at least one member, got none")
    elif isinstance(part, Group):
        _check_group(place, part)


def _check_call(place: str, part: Call, *, may_take: bool) -> None:
    if not isinstance(part.name, str) or not part.name:
        raise PlanInvalid(f"{place}: expected a task's name, got {part.name!r:.60}")
    if not isinstance(part.params, Mapping):
        raise PlanInvalid(f"{place}: params: expected a JSON object, got {type(part.params).__name__}")
    if part.into is None:
        return
    if not isinstance(part.into, str) or not part.into:
        raise PlanInvalid(f"{place}: into: expected a parameter's name, got {part.into!r:.60}")
    if part.into in part.params:
        raise PlanInvalid(f"{place}: into: expected a parameter without a value of its own, got {part.into!r:.60}")
    if not may_take:
        raise PlanInvalid(f"{place}: into: expected a member of a pipeline before it, whose result it takes, got none")


def _check_group(place: str, part: Group) -> None:
    if not isinstance(part.fail_fast, bool):
        raise PlanInvalid(f"{place}: fail_fast: expected true or false, got {part.fail_fast!r:.60}")
    most = part.max_parallel
    if most is not None and (type(most) is not int or most < 1):
        raise PlanInvalid(f"{place}: max_parallel: expected a whole number of at least 1, got {most!r:.60}")


# --- as JSON ---------------------------------------------------------------------------------------------------


def to_json(plan: Plan, *, with_params: bool = True) -> dict[str, Any]:
    """What is not said is left out. PlanInvalid as `check` has it."""
    check(plan)
    return _to_json(plan, with_params=with_params)


def _to_json(part: Plan, *, with_params: bool) -> dict[str, Any]:
    if isinstance(part, Call):
        said = {name: value for name in _TERMS if (value := getattr(part, name)) not in (None, {})}
        if not with_params:
            said.pop("params", None)
        return {"call": part.name, **said}
    members = [_to_json(member, with_params=with_params) for member in part.members]
    if isinstance(part, Pipeline):
        return {"pipeline": members}
    found: dict[str, Any] = {"group": members}
    if part.fail_fast:
        found["fail_fast"] = True
    if part.max_parallel is not None:
        found["max_parallel"] = part.max_parallel
    return found


def from_json(content: Any) -> Group | Pipeline:
    """PlanInvalid when it is none, with the place."""
    plan = _from_json("plan", content, 0)
    check(plan)
    assert isinstance(plan, Group | Pipeline), "it was checked"
    return plan


_FORMS: dict[str, tuple[str, ...]] = {
    "call": ("call", *_TERMS),
    "group": ("group", "fail_fast", "max_parallel"),
    "pipeline": ("pipeline",),
}


def _from_json(place: str, content: Any, level: int) -> Plan:
    if level > LEVELS_LIMIT:
        raise PlanInvalid(f"plan: expected at most {LEVELS_LIMIT} levels, got more")
    if not isinstance(content, dict):
        raise PlanInvalid(f"{place}: expected a JSON object, got {type(content).__name__}")
    kinds = [kind for kind in _FORMS if kind in content]
    if len(kinds) != 1:
        got = " and ".join(kinds) or ", ".join(map(repr, content))[:60] or "an empty one"
        raise PlanInvalid(f"{place}: expected one of {', '.join(_FORMS)}, got {got}")
    kind = kinds[0]
    _refuse_strangers(place, content, _FORMS[kind])
    if kind == "call":
        return Call(content["call"], **{name: content[name] for name in _TERMS if name in content})
    members = _members(place, content[kind], level)
    if kind == "pipeline":
        return Pipeline(members)
    return Group(members, content.get("fail_fast", False), content.get("max_parallel"))


def _members(place: str, content: Any, level: int) -> tuple[Plan, ...]:
    if not isinstance(content, Sequence) or isinstance(content, str):
        raise PlanInvalid(f"{place}: expected a list of members, got {type(content).__name__}")
    if len(content) > MEMBERS_LIMIT:
        raise PlanInvalid(f"plan: expected at most {MEMBERS_LIMIT} calls, got more")
    return tuple(_from_json(f"{place}[{at}]", member, level + 1) for at, member in enumerate(content))


def _refuse_strangers(place: str, content: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in content:
        if name not in known:
            near = nearest(str(name), known)
            hint = f", did you mean {near!r}?" if near else ""
            raise PlanInvalid(f"{place}: expected {', '.join(known)}, got {str(name)[:60]!r}{hint}")
