"""Groups on the command line of their node: submitted from a file, waited for, shown as a tree."""

import json

from node_bench import Supervised

PLAN = {
    "pipeline": [{"call": "noop", "key": "k"}, {"group": [{"call": "noop"}, {"call": "refuse"}], "max_parallel": 1}]
}
REFUSED = {
    "{": (2, "expected a plan as JSON, got text that is not JSON"),
    '{"group": []}': (2, "plan: expected at least one member, got none"),
    '{"groups": [{"call": "noop"}]}': (2, "plan: expected one of call, group, pipeline, got 'groups'"),
    '{"group": [{"call": "nooop"}]}': (1, "call 1: unknown task 'nooop', did you mean 'noop'?"),
}


def test_a_group_is_submitted_shown_and_waited_for(node: Supervised, tmp_path):
    """By a real supervisor; the exit code says whether all members succeeded."""
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(PLAN))
    done = node.cli("submit-group", str(file), "--wait")
    group_id = done.out.strip()
    assert (done.code, done.err.strip()) == (1, f"chong: group {group_id} ended as failed")
    shown = node.cli("show", group_id[-12:])
    assert shown.code == 0
    lines = [line.split() for line in shown.out.splitlines() if line]
    assert lines[:2] == [["group", group_id], ["status", "failed"]]
    assert [line[1:] if len(line[0]) == 8 and line[0] != "pipeline" else line for line in lines[4:]] == [
        ["pipeline"],
        ["noop", "k", "succeeded"],
        ["group,", "at", "most", "1", "at", "one", "time"],
        ["noop", "succeeded"],
        ["refuse", "failed"],
    ]
    told = node.cli("show", group_id, "--json").json
    assert (told["status"], told["plan"]["pipeline"][0]["status"]) == ("failed", "succeeded")
    assert len(node.cli("ps", "--all", "--group", group_id, "--json").json) == 3


def test_what_is_no_plan_is_refused_in_one_line(node: Supervised, tmp_path):
    """With the exit code of its kind."""
    file = tmp_path / "plan.json"
    for text, (code, fault) in REFUSED.items():
        file.write_text(text)
        done = node.cli("submit-group", str(file))
        assert fault in done.err
        assert (done.code, done.err.count("\n")) == (code, 1)
