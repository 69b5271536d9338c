"""What a test of a task is told is what a node would have stored."""

import node_tasks
from node_bench import InProcess

from chong.worker.testing import run_task

ENDS = ("sys.exit(0)", "own BaseException", "GeneratorExit", "recursion", "nan", "bytes", "surrogate", "deep", "huge")


def test_a_rehearsal_ends_as_the_run_does(shared: InProcess):
    """Status, kind, cause and words of the failure; tracebacks differ in the lines above the task's."""
    ids = {how: shared.submit("end", how=how) for how in ENDS}
    for how, task_id in ids.items():
        ended, rehearsed = shared.end_of(task_id), run_task(node_tasks.end, params={"how": how})
        assert (how, rehearsed.status) == (how, ended.status.value)
        told = ended.failure
        assert (rehearsed.failure.kind, rehearsed.failure.cause, rehearsed.failure.message) == (
            told.kind.value, told.cause, told.message
        )  # fmt: skip
