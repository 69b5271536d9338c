"""`chong run`: one task in the foreground, for development.

A node of its own that lasts as long as the task: the same supervisor and the same worker as in production, with a store
in memory and a directory that is removed at the end.
"""

import logging
import sys
import time
from collections.abc import MutableMapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import click
import structlog

from chong.cli.candidates import kept, keys, names
from chong.cli.ending import one_line
from chong.cli.follow import Follower, Output
from chong.cli.interrupts import Interrupts
from chong.cli.invocation import Invocation
from chong.cli.option import json_option, params_options
from chong.cli.place import temporary_place
from chong.cli.render import block, escape
from chong.cli.screen import print_json, remark
from chong.cli.taskrow import progress_text
from chong.cli.values import read_params, read_texts
from chong.store.errors import Refused
from chong.store.few import few
from chong.store.memory import InMemoryTaskStore
from chong.store.model import TaskSnapshot
from chong.store.states import Status
from chong.supervisor.catalogue import MOST_REFUSED, UnknownTask
from chong.supervisor.controller import Controller
from chong.supervisor.exits import Exit
from chong.supervisor.keys import KEYS
from chong.supervisor.options import option_of
from chong.supervisor.settings import Settings
from chong.supervisor.submission import Submission
from chong.worker.whereabouts import default_node

LEASE_SECONDS = 6.0
"""Short: if this process is killed, the task lives on without it for half of it."""
POLL_SECONDS = 0.1
TRACEBACK = "Traceback (most recent call last)"
PROGRESS_SECONDS = 1.0
"""At least so far apart are two lines about how far the task is."""


@click.command()
@click.argument("name", shell_complete=names())
@click.option("--key", shell_complete=kept(keys), help="Key that the task works for.")
@params_options
@option_of(KEYS["tasks"])
@json_option
@click.pass_obj
def run(
    call: Invocation,
    name: str,
    *,
    key: str | None,
    assignments: tuple[str, ...],
    params: str | None,
    tasks: tuple[str, ...],
    as_json: bool,
) -> Exit:
    """Run one task here and now, for development.

    Needs no supervisor and no store, and leaves nothing behind. The task's output goes to standard output and its
    result after it; with --json the output goes to standard error. Ctrl-C asks the task to stop, a second one kills it.
    """
    submission = Submission(name=name, key=key, params=read_params(params), texts=read_texts(assignments))
    config = replace(call.config, options={**call.config.options, "tasks": tasks})
    with ExitStack() as ends:
        interrupts = ends.enter_context(Interrupts())
        place = ends.enter_context(temporary_place())
        settings = Settings(
            node=default_node(),
            num_buckets=call.num_buckets,
            max_parallel=1,
            lease_seconds=LEASE_SECONDS,
            poll_seconds=POLL_SECONDS,
            breaker_crashes=None,
            only_one_task=True,
            modules=config.value("tasks") or (),
            pass_env=config.value("pass_env") or (),
            state_dir=place / "state",
        )
        store = ends.enter_context(InMemoryTaskStore())
        controller = Controller(store=store, settings=settings, log=_log())
        ends.callback(controller.close, 0)
        seen = Foreground(controller, store, settings, interrupts)
        task = seen.see_through(submission, Output(sys.stderr if as_json else sys.stdout))
    _tell(task, as_json=as_json)
    if task.status is Status.SUCCEEDED:
        return Exit.DONE
    return Exit.INTERRUPTED if interrupts.count else Exit.REFUSED


class Foreground:
    """Follows the one task of a controller, says what becomes of it, and passes Ctrl-C on."""

    def __init__(
        self, controller: Controller, store: InMemoryTaskStore, settings: Settings, interrupts: Interrupts
    ) -> None:
        self._controller = controller
        self._store = store
        self._settings = settings
        self._interrupts = interrupts
        self._task: TaskSnapshot
        self._told_at = 0.0
        self._heeded = 0

    def see_through(self, submission: Submission, output: Output) -> TaskSnapshot:
        """The task as it ended."""
        self._task = self._submit(submission)
        log_of = self._settings.paths.log_of
        return Follower(self._look, lambda attempt: log_of(f"{self._task.id}.{attempt}"), output).follow(self._task)

    def _submit(self, submission: Submission) -> TaskSnapshot:
        name, key = submission.name, submission.key
        params, texts = dict(submission.params), dict(submission.texts)
        seconds = self._settings.hello_seconds
        self._interrupts.raises = True
        try:
            if self._interrupts.count:
                raise KeyboardInterrupt
            return self._controller.submit(name, key=key, params=params, texts=texts, timeout=seconds)
        except UnknownTask as unknown:
            self._show_imports(only_if=TRACEBACK)
            raise Refused(_unknown(unknown)) from None
        except Refused:
            self._show_imports(only_if=TRACEBACK)
            raise
        except TimeoutError:
            self._show_imports()
            raise Refused(f"the task modules were not loaded within {seconds:g} s") from None
        finally:
            self._interrupts.raises = False

    def _show_imports(self, *, only_if: str = "") -> None:
        """What the task modules have said, with the tracebacks of those that failed; `only_if` it has that text."""
        for log in sorted(self._settings.paths.logs.glob("generation-*.log"))[-1:]:
            text = log.read_text(errors="backslashreplace")
            if only_if in text:
                remark("\n".join(block(text.strip())))

    def _look(self) -> TaskSnapshot:
        if self._controller.fault is not None:
            raise self._controller.fault
        before, self._task = self._task, self._store.get(self._task.id) or self._task
        self._remark_on(before)
        self._heed()
        return self._task

    def _remark_on(self, before: TaskSnapshot) -> None:
        task = self._task
        if task.status is Status.RUNNING and before.status is not Status.RUNNING:
            remark(f"chong: running, attempt {task.attempts_used} of {task.max_attempts}")
        told = progress_text(task.progress) if task.progress != before.progress else None
        if told is not None and time.monotonic() - self._told_at >= PROGRESS_SECONDS:
            self._told_at = time.monotonic()
            remark(f"chong: {escape(told)}")

    def _heed(self) -> None:
        """The first Ctrl-C asks, each further one kills."""
        if self._heeded == self._interrupts.count:
            return
        if not self._heeded:
            remark("chong: asked the task to stop; once more kills it")
            self._controller.stop(self._task.id, "Ctrl-C")
        else:
            remark("chong: killing the task")
        if self._interrupts.count > 1:
            self._controller.kill(self._task.id)
        self._heeded = self._interrupts.count


def _unknown(task: UnknownTask) -> str:
    """Nothing else has what this command alone has loaded: no other command would show it."""
    broken = "".join(f"; module {module} failed: {error}" for module, error in sorted(task.errors.items()))
    known = f"which define {few(sorted(task.known))}" if task.known else "which define none"
    return f"{task.word}{broken[:MOST_REFUSED]}; chong run loads the installed modules and those of --tasks, {known}"


def _tell(task: TaskSnapshot, *, as_json: bool) -> None:
    if as_json:
        print_json(task)
    elif task.status is Status.SUCCEEDED:
        print_json(task.outcome)
    if task.status is not Status.SUCCEEDED:
        remark(f"chong: {one_line(task)}")  # the traceback is part of its output


def _log() -> Any:
    """The supervisor's warnings as remarks; what it has to say beside is for operators."""
    return structlog.wrap_logger(
        structlog.PrintLogger(file=sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        processors=[_as_remark],
    )


def _as_remark(_: Any, __: str, event: MutableMapping[str, Any]) -> str:
    hidden = {"event", "node", "term", "exc_info"}
    facts = " ".join(f"{name}={value}" for name, value in event.items() if name not in hidden)
    return escape(f"chong: {event['event']} {facts}")
