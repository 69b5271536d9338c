"""An attempt that is rehearsed in a test's process ends as it would in a worker."""

import asyncio
import signal
import threading
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest

from chong.store.model import Failure, FailureKind
from chong.supervisor.verdict import Evidence, ProcessEnd, Result, judge
from chong.worker import TaskContext, TaskStopped, task
from chong.worker import script as script_module
from chong.worker.testing import EndlessTaskError, run_task


def of(function, **options):
    return task("a.b", **options)(function)


def steps(ctx: TaskContext, count: int = 5) -> int:
    for done in range(1, count + 1):
        ctx.checkpoint(done=done, total=count, state=[done])
    return count


class TestMoments:
    def test_every_one_is_written_down_as_it_was(self):
        """A worker sends only the newest of many; what is changed later was said as it stood then."""

        def work(ctx: TaskContext) -> None:
            seen: list[int] = []
            for done in (1, 2):
                seen.append(done)
                ctx.checkpoint(done=done, total=2, message=f"page {done}", state=seen)
            ctx.sleep(3600)
            ctx.checkpoint()
            assert not ctx.stop_requested

        run = run_task(of(work))
        assert [moment.kind for moment in run.moments] == ["checkpoint", "checkpoint", "sleep", "checkpoint", "look"]
        assert [(each.done, each.message, each.state) for each in run.checkpoints] == [
            (1, "page 1", [1]), (2, "page 2", [1, 2]), (None, None, None)
        ]  # fmt: skip
        assert (run.status, run.sleeps, run.last_checkpoint) == ("succeeded", [3600], [1, 2])

    def test_the_context_says_what_it_was_given(self):
        """As it would come out of the spool, as JSON; the deadline is that of the time-out."""

        def tell(ctx: TaskContext, pages) -> list:
            ctx.log.warning("told", pages=pages)
            return [ctx.name, ctx.key, ctx.attempt, ctx.params, pages, ctx.last_checkpoint, ctx.deadline is not None]

        run = run_task(
            of(tell, timeout=5), key="acme", attempt=3, params={"pages": (1, 2)}, last_checkpoint={"a": (1,)}
        )
        assert run.result == ["a.b", "acme", 3, {"pages": [1, 2]}, [1, 2], {"a": [1]}, True]
        assert [(line["event"], line["level"], line["key"], line["pages"]) for line in run.log] == [
            ("told", "warning", "acme", [1, 2])
        ]

    def test_parameters_are_what_the_annotations_say(self):
        """Or it fails, as in a worker."""

        def bill(ctx: TaskContext, day: date) -> list:
            return [repr(day), ctx.params]

        assert run_task(of(bill), params={"day": "2026-12-01"}).result == [
            "datetime.date(2026, 12, 1)", {"day": "2026-12-01"}
        ]  # fmt: skip
        run = run_task(of(bill), params={"day": "soon"})
        assert (run.status, run.failure.cause) == ("failed", "TypeError")
        assert run.failure.message.startswith("task 'a.b': invalid RFC3339 encoded date at day")

    def test_a_task_without_a_context_gets_none(self):
        """As in a worker."""
        assert run_task(of(lambda: 7)).result == 7

    @pytest.mark.parametrize("state", [{1: 2}, {"a": {1}}, float("nan"), "x" * 300_000])
    def test_a_state_that_no_store_takes_is_refused_in_the_task(self, state):
        """And has not been said."""

        def work(ctx: TaskContext) -> int:
            with pytest.raises(ValueError, match="state"):
                ctx.checkpoint(done=1, state=state)
            with pytest.raises(ValueError, match="total"):
                ctx.checkpoint(total=float("inf"))
            with pytest.raises(ValueError, match="sleep"):
                ctx.sleep(-1)
            ctx.checkpoint(done=2)
            return 1

        run = run_task(of(work), stop_at=2)
        assert (run.status, [(each.number, each.done) for each in run.moments]) == ("succeeded", [(1, 2)])


class TestStops:
    @pytest.mark.parametrize("at", [3, lambda moment: moment.done == 3, lambda moment: moment.state == [3]])
    def test_a_stop_comes_at_the_moment_that_is_named(self, at):
        """The checkpoint at which it came had been reported."""
        run = run_task(of(steps), stop_at=at)
        assert (run.status, [each.done for each in run.checkpoints]) == ("stopped", [1, 2, 3])
        assert (run.heard_stop, run.cleaned_up, type(run.error)) == (True, True, TaskStopped)

    def test_it_is_raised_once_and_not_swallowed(self):
        """Not by what catches every Exception; later checkpoints only report."""
        told: list[str] = []

        def work(ctx: TaskContext) -> None:
            try:
                try:
                    ctx.checkpoint(done=1)
                except Exception:
                    told.append("swallowed")
            finally:
                ctx.checkpoint(done=2)
                ctx.sleep(1)
                told.append("cleaned up")

        run = run_task(of(work), stop_at=lambda _: True)
        assert (run.status, told, len(run.moments)) == ("stopped", ["cleaned up"], 3)

    def test_what_only_looks_hears_of_it_as_well(self):
        """It may return what it has, which counts."""

        def work(ctx: TaskContext) -> int:
            turns = 0
            while not ctx.stop_requested:
                turns += 1
            return turns

        run = run_task(of(work), stop_at=4)
        assert (run.status, run.result, run.heard_stop, run.cleaned_up) == ("succeeded", 3, True, False)

    def test_a_clean_up_that_fails_shows(self):
        """The task is stopped all the same, and its failure is kept."""

        def work(ctx: TaskContext) -> None:
            try:
                ctx.sleep(1)
            finally:
                raise OSError("disk full")

        run = run_task(of(work), stop_at=1)
        assert (run.status, run.cleaned_up, run.failure.cause, run.failure.message) == (
            "stopped", False, "OSError", "disk full"
        )  # fmt: skip

    def test_a_stop_in_a_pause_ends_it(self):
        """Both fall on one moment."""
        seen: list[str] = []
        run = run_task(of(steps), pause_at=2, stop_at=2, while_paused=lambda: seen.append("paused"))
        assert (run.status, run.pauses, seen, len(run.moments)) == ("stopped", 1, ["paused"], 2)

    def test_every_pause_is_acknowledged_and_ends(self):
        """Each anew; nothing of the task goes on meanwhile."""
        seen: list[int] = []
        reached: list[int] = []

        def work(ctx: TaskContext) -> None:
            for done in range(5):
                reached.append(done)
                ctx.checkpoint(done=done)

        run = run_task(
            of(work), pause_at=lambda moment: moment.done in {1, 3}, while_paused=lambda: seen.append(len(reached))
        )
        assert (run.status, run.pauses, seen, len(reached)) == ("succeeded", 2, [2, 4], 5)

    def test_a_task_without_an_end_ends_the_test(self, monkeypatch):
        """And not as a failure of the task's, which may catch what it likes."""
        monkeypatch.setattr(script_module, "MOST_MOMENTS", 50)

        def work(ctx: TaskContext) -> None:
            while True:
                try:
                    ctx.sleep(1)
                except Exception:
                    return

        with pytest.raises(EndlessTaskError, match="stop_at ends it"):
            run_task(of(work))


class TestAsync:
    def test_a_stop_cancels_at_the_next_await(self):
        """A checkpoint never raises; clean-up may await."""
        told: list[str] = []

        async def work(ctx: TaskContext) -> None:
            try:
                ctx.checkpoint(done=1)
                told.append("goes on")
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0)
                told.append("cleaned up")

        run = run_task(of(work), stop_at=1)
        assert (run.status, run.cleaned_up, told) == ("stopped", True, ["goes on", "cleaned up"])

    def test_a_pause_holds_it_and_ends(self):
        """At its checkpoint; `ctx.sleep` is refused."""

        async def work(ctx: TaskContext) -> str:
            ctx.checkpoint()
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match=r"expected `await asyncio.sleep"):
                ctx.sleep(1)
            return "done"

        run = run_task(of(work), pause_at=1)
        assert (run.status, run.result, run.pauses) == ("succeeded", "done", 1)

    def test_inside_of_a_running_loop_it_is_refused(self):
        """In one line that says what to do."""

        async def test() -> None:
            run_task(of(steps))

        with pytest.raises(RuntimeError, match="expected no running event loop"):
            asyncio.run(test())


class TestRules:
    @pytest.mark.parametrize("stops", [False, True])
    @pytest.mark.parametrize("end", ["returns", "raises", "passes on", "invalid"])
    def test_the_verdict_is_the_supervisors(self, end, stops):
        """By its own table, from what a worker would have told it."""

        def work(ctx: TaskContext) -> object:
            try:
                ctx.checkpoint()
            except TaskStopped:
                if end == "passes on":
                    raise
            if end == "raises":
                raise ValueError("no")
            return object() if end == "invalid" else 1

        run = run_task(of(work), stop_at=1 if stops else None)
        kinds = {"raises": FailureKind.EXCEPTION, "invalid": FailureKind.RESULT_INVALID}
        failure = Failure(kinds[end], "x", "x") if end in kinds else None
        has_result = end == "returns" or (end == "passes on" and not stops)
        evidence = Evidence(
            exit=ProcessEnd(code=0),
            result=Result(1) if has_result else None,
            failure=failure,
            stop_asked=stops,
        )
        verdict = judge(evidence)
        told = verdict.failure and verdict.failure.kind.value
        assert (run.status, run.failure and run.failure.kind) == (verdict.status.value, told)

    def test_parameters_are_bound_by_name(self):
        """As a worker binds them: the failure has the signature."""
        run = run_task(of(steps), params={"cuont": 5})
        assert (run.status, run.failure.cause, run.moments) == ("failed", "TypeError", ())
        assert "expected (ctx: " in run.failure.message

    def test_what_is_no_test_of_a_task_is_refused(self):
        """By an error of the test's, not of the task."""
        with pytest.raises(ValueError, match="parameters"):
            run_task(of(steps), params={"count": {1}})
        with pytest.raises(ValueError, match="state"):
            run_task(of(steps), last_checkpoint={1: 2})
        with pytest.raises(TypeError, match="expected a function under @task, got function"):
            run_task(steps)
        found: list[BaseException] = []

        def elsewhere() -> None:
            try:
                run_task(of(steps))
            except RuntimeError as error:
                found.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert "expected the main thread" in str(found[0])

    def test_a_ctrl_c_ends_the_test(self):
        """It is somebody's who waits for it, and no end of the task."""

        def work(ctx: TaskContext) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_task(of(work))

    def test_other_threads_only_report(self):
        """A stop is not raised in them; the main thread hears of it later."""

        def work(ctx: TaskContext) -> None:
            thread = threading.Thread(target=ctx.checkpoint, kwargs={"done": 1})
            thread.start()
            thread.join()
            ctx.checkpoint(done=2)

        run = run_task(of(work), stop_at=lambda _: True)
        assert (run.status, [each.done for each in run.checkpoints]) == ("stopped", [1, 2])


def test_nothing_is_left_in_the_process():
    """No descriptor, handler, timer, thread, directory or event loop, however it ends."""

    async def wait(ctx: TaskContext) -> None:
        ctx.checkpoint()
        await asyncio.sleep(60)

    def state() -> SimpleNamespace:
        return SimpleNamespace(
            descriptors=len(list(Path("/proc/self/fd").iterdir())),
            handlers=[signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGURG, signal.SIGALRM)],
            timer=signal.getitimer(signal.ITIMER_REAL)[1],
            threads=threading.active_count(),
            directory=Path.cwd(),
        )

    run_task(of(steps))
    before = state()
    for _ in range(20):
        run_task(of(steps), stop_at=2)
        run_task(of(lambda: 1 / 0))
        run_task(of(wait), stop_at=1)
    assert state() == before
