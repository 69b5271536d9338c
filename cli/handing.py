"""Handing a submission to the node's supervisor, which may have to wait for its store before it can answer."""

from typing import Any

from chong.cli.invocation import Invocation
from chong.cli.late import remarked_when_late
from chong.cli.screen import remark
from chong.supervisor.control_client import submit_over
from chong.supervisor.submission import Submission


def hand_over(call: Invocation, submission: Submission) -> dict[str, Any]:
    """As `submit_over`; says what a late answer waits for, and on Ctrl-C what is known of the submission."""
    try:
        with remarked_when_late(lambda: _cause(submission)):
            return submit_over(call.paths.control, submission, node=call.node)
    except KeyboardInterrupt:
        remark(
            f"chong: task {submission.id} stays asked for, and may still be accepted: "
            f"chong show {submission.id} tells, and chong stop ends it"
        )
        raise


def _cause(submission: Submission) -> str:
    if submission.unique_key is None:
        return "a supervisor accepts work once it has met its store and loaded its task modules"
    return "with --unique a supervisor waits for its store, which alone knows whether the unique key is free"
