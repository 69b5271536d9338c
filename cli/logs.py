"""`chong logs`: the output of an attempt, at once or as it comes."""

import sys
from contextlib import closing

import click

from chong.cli.candidates import ids
from chong.cli.find import find_one
from chong.cli.follow import Follower, Output, has_ended, pour, tell_gone
from chong.cli.invocation import Invocation
from chong.cli.locallog import LocalLog, local_log
from chong.cli.option import json_option
from chong.cli.reach import reach
from chong.cli.runlog import LogReader
from chong.cli.screen import print_json, remark
from chong.store.contract import TaskStore
from chong.store.errors import ConfigurationError, Refused, RightsMissing, StoreUnavailable
from chong.store.model import TaskSnapshot


@click.command()
@click.argument("part", metavar="ID", shell_complete=ids())
@click.option("--attempt", type=click.IntRange(1), help="Which attempt; default the latest.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until the task or the attempt is over.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines.")
@json_option
@click.pass_obj
def logs(call: Invocation, part: str, *, attempt: int | None, follow: bool, tail: int | None, as_json: bool) -> None:
    """Print the output of one attempt, on the node where it ran.

    On a terminal control characters are escaped; into a pipe or file go the bytes as they were written. Without
    --attempt, --follow goes from each attempt to the next. While the store is away, ID is looked for among the logs
    that lie here, and --follow is not possible.
    """
    if follow and as_json:
        raise ConfigurationError("--json: expected it without --follow, which has no end to be printed whole")
    try:
        with reach(call) as reached:
            task = find_one(reached.store, part)
            _check_here(call, task)
            if follow:
                _follow(call, reached.store, task, attempt, tail)
                return
        log = _chosen_log(call, task, attempt)
    except RightsMissing:
        raise  # the store is there, and whoever asks is not to know
    except StoreUnavailable as error:
        log = _log_without_store(call, part, attempt, error, follow=follow)
    with closing(LogReader(log.path)) as reader:
        if tail is not None:
            reader.seek_tail(tail)
        if as_json:
            _print_as_json(call, log, reader)
        else:
            output = Output(sys.stdout)
            pour(reader, output)
            output.finish()
            tell_gone(reader)


def _follow(call: Invocation, store: TaskStore, task: TaskSnapshot, attempt: int | None, tail: int | None) -> None:
    if attempt is not None or task.status.is_final:
        chosen = _attempt_of(task, attempt)
        if has_ended(task, chosen):
            _chosen_log(call, task, chosen)
    Follower(
        lambda: find_one(store, task.id),
        lambda number: call.paths.log_of(f"{task.id}.{number}"),
        Output(sys.stdout),
        tail=tail,
    ).follow(task, attempt)


def _print_as_json(call: Invocation, log: LocalLog, reader: LogReader) -> None:
    text = b"".join(reader.read()).decode(errors="backslashreplace")
    said = {"id": log.task_id, "attempt": log.attempt, "node": call.node, "path": str(log.path)}
    print_json({**said, "bytes_gone": reader.gone, "text": text})


def _attempt_of(task: TaskSnapshot, attempt: int | None) -> int:
    if task.attempt == 0:
        raise Refused(f"task {task.id} has not been started yet: there is no log")
    if attempt is not None and attempt > task.attempt:
        raise Refused(f"--attempt: expected 1 to {task.attempt}, got {attempt}")
    return attempt or task.attempt


def _check_here(call: Invocation, task: TaskSnapshot) -> None:
    if task.node != call.node:
        raise Refused(f"task {task.id} belongs to node {task.node}, its log is there; this is node {call.node}")


def _chosen_log(call: Invocation, task: TaskSnapshot, attempt: int | None) -> LocalLog:
    chosen = _attempt_of(task, attempt)
    log = LocalLog(task.id, chosen, call.paths.log_of(f"{task.id}.{chosen}"))
    if not log.path.exists():
        raise Refused(f"no log of attempt {chosen} of task {task.id}: there is no file {log.path}")
    return log


def _log_without_store(
    call: Invocation, part: str, attempt: int | None, error: StoreUnavailable, *, follow: bool
) -> LocalLog:
    """By the files that lie here: when a task is over, and whether it is of this node at all, they do not say."""
    if follow:
        raise StoreUnavailable(f"{error}; --follow needs the store, without it what is there now is printed") from error
    found = local_log(call.paths.logs, part, attempt)
    if found is None:
        raise StoreUnavailable(f"{error}; and no such log lies in {call.paths.logs}") from error
    remark(f"chong: the store is away, this is attempt {found.attempt} as it lies here; {error}")
    return found
