"""A submission is within its bounds, or it is refused in one line that says what was expected."""

import json
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chong.store.errors import ConfigurationError
from chong.store.specimens import task_id
from chong.supervisor.submission import Submission, from_json, to_json
from chong.worker.options import KEY_LIMIT, NAME_LIMIT
from chong.worker.result import PARAMS_LIMIT

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)
FIELDS = st.sampled_from(
    ["name", "key", "params", "texts", "unique_key", "trigger", "id", "priority", "retries", "run_timeout"]
)
BIG = {"text": "x" * (PARAMS_LIMIT - len('{"text":""}'))}


def nested(depth):
    value = inner = {}
    for _ in range(depth):
        inner["deeper"] = {}
        inner = inner["deeper"]
    return value


def refusal(**facts):
    with pytest.raises(ConfigurationError) as refused:
        Submission(**({"name": "billing.sync"} | facts))
    return str(refused.value)


class TestBounds:
    @pytest.mark.parametrize(
        ("facts", "message"),
        [
            ({"name": ""}, f"task name: expected 1 to {NAME_LIMIT} characters, got 0"),
            ({"name": "n" * 201}, "task name: expected 1 to 200 characters, got 201"),
            ({"name": 7}, "task name: expected text, got int"),
            ({"name": "a\nb"}, r"task name: expected no control characters, got '\n'"),
            ({"key": ""}, "key: expected 1 to 500 characters, got 0"),
            ({"key": "k" * 501}, f"key: expected 1 to {KEY_LIMIT} characters, got 501"),
            ({"key": "\ud800"}, r"key: expected no control characters, got '\ud800'"),
            ({"unique_key": "\0"}, r"unique key: expected no control characters, got '\x00'"),
            ({"unique_key": []}, "unique key: expected text, got list"),
            ({"trigger": ""}, "trigger: expected 1 to 200 characters, got 0"),
            ({"id": "7"}, "id: expected a lower-case UUID, got '7'"),
            (
                {"id": task_id(1).replace("-", "")},
                f"id: expected a lower-case UUID, got '{task_id(1).replace('-', '')}'",
            ),
            ({"id": None}, "id: expected a lower-case UUID, got 'None'"),
            ({"params": None}, "parameters: expected a JSON object, got NoneType"),
            ({"params": {1: 2}}, "parameters: expected a JSON object, got dict"),
            ({"texts": {"n": 1}}, "texts: expected text for 'n', got int"),
            ({"texts": {"n": "\ud800"}}, 'parameters["n"]: expected text, got a lone surrogate'),
            (
                {"params": BIG | {"more": 1}},
                "parameters: expected at most 262144 bytes of JSON, got more",
            ),
        ],
    )
    def test_what_is_out_of_bounds_is_told_in_one_line(self, facts, message):
        """What was expected, and what was got."""
        assert message == refusal(**facts)

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, "\ud800", b"bytes"])
    def test_a_parameter_that_is_no_json_is_refused(self, value):
        """Before anything is kept."""
        assert refusal(params={"p": value}).startswith('parameters["p"]: expected ')

    @pytest.mark.parametrize(
        "facts", [{"name": "n" * 200}, {"key": "名" * 500}, {"params": BIG}, {"params": nested(50)}, {"key": "a b"}]
    )
    def test_what_is_just_within_bounds_is_taken(self, facts):
        """The bounds themselves are good."""
        taken = Submission(**({"name": "billing.sync"} | facts))
        assert facts == {name: getattr(taken, name) for name in facts}

    def test_each_submission_has_an_id_of_its_own(self):
        """Made by whoever submits."""
        assert Submission(name="n").id != Submission(name="n").id


class TestJson:
    def test_terms_come_back_as_they_were_said(self):
        """By whichever zone; what is not said is not written, as an older version would not read it."""
        zone = timezone(timedelta(hours=5, minutes=30))
        said = Submission(
            name="n", due_at=datetime(2035, 1, 31, 18, tzinfo=zone), priority=0, retries=0, run_timeout=0.5
        )
        assert from_json(json.loads(json.dumps(to_json(said)))) == said
        assert set(to_json(Submission(name="n"))) == {"name", "key", "params", "unique_key", "trigger", "id"}

    @given(JSON)
    def test_junk_is_refused_by_one_kind_of_error(self, content):
        """Whatever the JSON."""
        with pytest.raises(ConfigurationError):
            from_json(content)

    @given(st.dictionaries(FIELDS, JSON))
    def test_half_junk_is_read_or_refused(self, content):
        """Fields of the right name and the wrong kind."""
        try:
            submission = from_json(content)
        except ConfigurationError:
            return
        read_back = {"texts": {}} | to_json(submission)
        assert content == {name: value for name, value in read_back.items() if name in content}

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ([], "submission: expected a JSON object, got list"),
            ({}, "submission: expected a name, got none"),
            (
                {"name": "n", "bucket": 1},
                (
                    "submission: expected name, key, params, unique_key, trigger, id, due_at, priority, retries, "
                    "run_timeout, texts, group_id, got 'bucket'"
                ),
            ),
        ],
    )
    def test_what_is_no_submission_is_told_in_one_line(self, content, message):
        """The fields that there are."""
        with pytest.raises(ConfigurationError) as refused:
            from_json(content)
        assert message == str(refused.value)

    def test_it_reads_back_as_it_was_written(self):
        """Through JSON."""
        for texts in ({}, {"b": "1"}):
            submission = Submission(name="n", key="名前", params={"a": [1, None]}, unique_key="u", texts=texts)
            assert submission == from_json(json.loads(json.dumps(to_json(submission))))
            assert ("texts" in to_json(submission)) == bool(texts)

    @pytest.mark.parametrize("depth", [250, 400, 480])
    def test_deep_parameters_are_taken_whole_or_refused(self, depth):
        """Never taken by one part and choked on by the next: that would end the main loop."""
        try:
            submission = from_json({"name": "n", "params": nested(depth)})
        except ConfigurationError:
            return
        assert submission == from_json(json.loads(json.dumps(to_json(submission))))
