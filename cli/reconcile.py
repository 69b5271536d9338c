"""`chong reconcile`: runs of dead supervisors are called lost."""

import time

import click

from chong.cli.invocation import Invocation
from chong.cli.late import REMARK_SECONDS
from chong.cli.option import json_option
from chong.cli.reach import reach
from chong.cli.screen import print_json, print_table, remark, show_progress, shows_progress
from chong.cli.standing import standings
from chong.cli.taskrow import COLUMNS, task_row
from chong.cli.times import span, utc_now
from chong.cli.wait import OUTAGE_SECONDS
from chong.store.errors import StoreUnavailable
from chong.supervisor.oneline import counted
from chong.supervisor.reconcile import Judge
from chong.worker.issuer import default_issuer


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
