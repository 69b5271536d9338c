"""`chong logs`: the output of an attempt, at once or as it comes."""

import sys
from contextlib import closing
from pathlib import Path

import click

from chong.cli.candidates import ids
from chong.cli.find import find_one
from chong.cli.follow import Follower, Output, has_ended, pour, tell_gone
from chong.cli.invocation import Invocation
from chong.cli.option import json_option
from chong.cli.reach import reach
from chong.cli.runlog import LogReader
from chong.cli.screen import print_json
from chong.store.contract import TaskStore
from chong.store.errors import ConfigurationError, Refused
from chong.store.model import TaskSnapshot


@click.command()
@click.argument("part", metavar="ID", shell_complete=ids())
@click.option("--attempt", type=int, help="Which attempt; default the latest.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until the task or the attempt is over.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines.")
@json_option
@click.pass_obj
def logs(call: Invocation, part: str, *, attempt: int | None, follow: bool, tail: int | None, as_json: bool) -> None:
    """Print the output of one attempt, on the node where it ran.

    On a terminal control characters are escaped; into a pipe or file go the bytes as they were written. Without
    --attempt, --follow goes from each attempt to the next.
    """
    if follow and as_json:
        raise ConfigurationError("--json: expected it without --follow, which has no end to be printed whole")
    with reach(call) as reached:
        task = find_one(reached.store, part)
        _check_here(call, task)
        if follow:
            _follow(call, reached.store, task, attempt, tail)
            return
    chosen = _attempt_of(task, attempt)
    with closing(LogReader(_log_here(call, task, chosen))) as reader:
        if tail is not None:
            reader.seek_tail(tail)
        if as_json:
            _print_as_json(call, task, chosen, reader)
        else:
            output = Output(sys.stdout)
            pour(reader, output)
            output.finish()
            tell_gone(reader)


def _follow(call: Invocation, store: TaskStore, task: TaskSnapshot, attempt: int | None, tail: int | None) -> None:
    if attempt is not None or task.status.is_final:
        chosen = _attempt_of(task, attempt)
        if has_ended(task, chosen):
            _log_here(call, task, chosen)
    Follower(
        lambda: find_one(store, task.id),
        lambda number: call.paths.log_of(f"{task.id}.{number}"),
        Output(sys.stdout),
        tail=tail,
    ).follow(task, attempt)


def _print_as_json(call: Invocation, task: TaskSnapshot, attempt: int, reader: LogReader) -> None:
    text = b"".join(reader.read()).decode(errors="backslashreplace")
    path = call.paths.log_of(f"{task.id}.{attempt}")
    said = {"id": task.id, "attempt": attempt, "node": task.node, "path": str(path)}
    print_json({**said, "bytes_gone": reader.gone, "text": text})


def _attempt_of(task: TaskSnapshot, attempt: int | None) -> int:
    if task.attempt == 0:
        raise Refused(f"task {task.id} has not been started yet: there is no log")
    if attempt is not None and not 1 <= attempt <= task.attempt:
        raise ConfigurationError(f"--attempt: expected 1 to {task.attempt}, got {attempt}")
    return attempt or task.attempt


def _check_here(call: Invocation, task: TaskSnapshot) -> None:
    if task.node != call.node:
        raise Refused(f"task {task.id} belongs to node {task.node}, its log is there; this is node {call.node}")


def _log_here(call: Invocation, task: TaskSnapshot, attempt: int) -> Path:
    path = call.paths.log_of(f"{task.id}.{attempt}")
    if not path.exists():
        raise Refused(f"no log of attempt {attempt} of task {task.id}: there is no file {path}")
    return path
