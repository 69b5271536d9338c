"""Plans of groups and pipelines: what is none is refused with its place, and what is one survives its JSON."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chong.store.ids import is_id, new_id
from chong.supervisor.members import member_id, members_of
from chong.worker.plan import (
    LEVELS_LIMIT,
    MEMBERS_LIMIT,
    PlanInvalid,
    call,
    calls_of,
    check,
    from_json,
    group,
    pipeline,
    to_json,
)

A = {"call": "a"}
CALLS = st.builds(
    call,
    st.sampled_from("ab"),
    key=st.none() | st.just("k"),
    params=st.dictionaries(st.sampled_from("xy"), st.integers(0, 3)),
    priority=st.none() | st.integers(-1, 1),
)
PLANS = st.recursive(
    CALLS,
    lambda part: (
        st.builds(
            group, st.lists(part, min_size=1, max_size=3), fail_fast=st.booleans(), max_parallel=st.none() | st.just(2)
        )
        | st.builds(pipeline, st.lists(part, min_size=1, max_size=3))
    ),
    max_leaves=12,
)


@settings(max_examples=100)
@given(PLANS)
def test_a_plan_survives_its_json(plan):
    """Parameters as well, unless they are to stay out."""
    whole = group([plan])
    assert from_json(json.loads(json.dumps(to_json(whole)))) == whole
    assert "params" not in json.dumps(to_json(whole, with_params=False))


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (A, "plan: expected a group or a pipeline, got Call; a single call is submitted as a task"),
        ([], "plan: expected a JSON object, got list"),
        ({"steps": []}, "plan: expected one of call, group, pipeline, got 'steps'"),
        ({"group": [A], "pipeline": [A]}, "plan: expected one of call, group, pipeline, got group and pipeline"),
        ({"group": []}, "plan: expected at least one member, got none"),
        ({"group": "ab"}, "plan: expected a list of members, got str"),
        ({"group": [A, 5]}, "plan[1]: expected a JSON object, got int"),
        (
            {"group": [A], "failfast": True},
            "plan: expected group, fail_fast, max_parallel, got 'failfast', did you mean",
        ),
        ({"group": [A], "fail_fast": 1}, "plan: fail_fast: expected true or false, got 1"),
        ({"group": [A], "max_parallel": 0}, "plan: max_parallel: expected a whole number of at least 1, got 0"),
        ({"group": [A], "max_parallel": True}, "plan: max_parallel: expected a whole number of at least 1, got True"),
        ({"group": [{"call": ""}]}, "plan[0]: expected a task's name, got ''"),
        ({"group": [{"call": "a", "params": 1}]}, "plan[0]: params: expected a JSON object, got int"),
        ({"pipeline": [{"call": "a", "into": "x"}]}, "plan[0]: into: expected a member of a pipeline before it"),
        ({"pipeline": [A, {"call": "a", "into": 5}]}, "plan[1]: into: expected a parameter's name, got 5"),
        (
            {"pipeline": [A, {"group": [{"call": "a", "into": "x", "params": {"x": 1}}]}]},
            "plan[1][0]: into: expected a parameter without a value of its own, got 'x'",
        ),
        ({"group": [A] * (MEMBERS_LIMIT + 1)}, f"plan: expected at most {MEMBERS_LIMIT} calls, got more"),
    ],
)
def test_what_is_no_plan_is_told_with_its_place(content, fault):
    """In one line."""
    with pytest.raises(PlanInvalid) as refused:
        from_json(content)
    assert str(refused.value).startswith(fault)
    assert "\n" not in str(refused.value)


def test_a_plan_within_itself_ends_at_the_limit_of_levels():
    """A list that is its own member can be written in Python, and made of nothing else."""
    members: list = []
    plan = group([call("a")])
    for _ in range(LEVELS_LIMIT + 1):
        plan = pipeline([plan])
    with pytest.raises(PlanInvalid, match="levels, got more"):
        check(plan)
    content: dict = {"group": members}
    members.append(content)
    with pytest.raises(PlanInvalid, match="levels, got more"):
        from_json(content)


def test_members_are_told_apart_and_stand_in_their_order():
    """Whoever computes their ids, and however many there are."""
    plan, id_ = group([call("a")] * MEMBERS_LIMIT), new_id()
    ids = [submission.id for _, submission in members_of(id_, plan)]
    assert ids == sorted(ids)
    assert len({each[-8:] for each in ids}) > MEMBERS_LIMIT - 10
    assert all(map(is_id, ids[::100]))
    assert {each[:13] for each in ids} == {id_[:13]}
    assert ids[77] == member_id(id_, 77) != member_id(new_id(), 77)
    assert len(list(calls_of(plan))) == MEMBERS_LIMIT
