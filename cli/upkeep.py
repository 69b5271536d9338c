"""Commands that put things in order."""

import time
from collections.abc import Mapping
from typing import Any

import click

from chong.cli.invocation import Invocation
from chong.cli.late import REMARK_SECONDS, remarked_when_late
from chong.cli.option import default_issuer, json_option
from chong.cli.reach import reach
from chong.cli.render import escape
from chong.cli.screen import print_json, print_table, remark, show_progress, shows_progress
from chong.cli.standing import standings
from chong.cli.taskrow import COLUMNS, task_row
from chong.cli.times import span, utc_now
from chong.cli.wait import OUTAGE_SECONDS
from chong.store.errors import StoreUnavailable
from chong.supervisor.control_client import ask_node
from chong.supervisor.exits import Exit
from chong.supervisor.oneline import counted
from chong.supervisor.reconcile import Judge
from chong.supervisor.reloads import RELOAD_SECONDS


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say which runs have a lease that is past, at once.")
@json_option
@click.pass_obj
def reconcile(call: Invocation, *, dry_run: bool, as_json: bool) -> None:
    """Call runs lost whose supervisor is dead.

    Covers --owned-buckets, or all without. Watches each lease until it is renewed, or has run out unrenewed for a
    whole lease, so that neither an outage nor a wrong clock makes a living task lost. Prints what it called lost; after
    a second it says on standard error what it watches and how long at most.
    """
    with reach(call) as reached:
        judge = Judge(reached.store, actor=default_issuer())
        if dry_run:
            tasks = judge.candidates(reached.partition)
        else:
            patience = Patience()
            tasks = judge.reconcile(reached.partition, on_wait=patience.note_answer, sleep=patience.sleep)
        known = standings(reached.store, tasks)
    if as_json:
        print_json(tasks)
    else:
        now = utc_now()
        print_table(COLUMNS, [task_row(task, now, standing) for task, standing in zip(tasks, known, strict=True)])


@click.command()
@json_option
@click.pass_obj
def reload(call: Invocation, *, as_json: bool) -> Exit:
    """Let this node's supervisor load the task modules anew.

    Waits until new runs get the new code. Runs under way keep theirs. A module that cannot be loaded costs its own
    tasks only, and is told. Exit 1 when one could not, and when the old code stays: the error says why.
    """
    call.check_node()
    lost = "whether it loads new code is unknown, its log says"
    with remarked_when_late(lambda: "new runs get the new code when every module has been tried out"):
        loaded = ask_node(call.paths.control, {"op": "reload"}, node=call.node, timeout=RELOAD_SECONDS, lost=lost)
    if as_json:
        print_json(loaded)
        return _code(loaded)
    print(f"generation {loaded['generation']} is live, with {counted(loaded['tasks'], 'task')}")
    for module, error in sorted(loaded["errors"].items()):
        remark(f"chong: module {escape(module)} failed: {escape(error)}")
    for name, error in sorted(loaded.get("refused", {}).items()):
        remark(f"chong: task {escape(name)}: {escape(error)}")
    return _code(loaded)


def _code(loaded: Mapping[str, Any]) -> Exit:
    return Exit.REFUSED if loaded["errors"] or loaded.get("refused") else Exit.DONE


class Patience:
    """Says what is watched, and ends a watch whose store has been away for too long.

    On a terminal all the time, elsewhere once it lasts.
    """

    def __init__(self) -> None:
        self._began = self._answered = time.monotonic()
        self._is_told = shows_progress()

    def note_answer(self, count: int, seconds: float) -> None:
        self._answered = time.monotonic()
        watched = f"watching {counted(count, 'lease')} for at most {span(seconds)}"
        show_progress(watched)
        if not self._is_told and self._answered - self._began >= REMARK_SECONDS:
            self._is_told = True
            remark(f"chong: no answer yet: {watched}, as a holder that lives renews its own meanwhile")

    def sleep(self, seconds: float) -> None:
        if time.monotonic() - self._answered > OUTAGE_SECONDS:
            raise StoreUnavailable(f"the store has been out of reach for {span(OUTAGE_SECONDS)}: nothing can be judged")
        time.sleep(seconds)
        show_progress("")
