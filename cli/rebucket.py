"""`chong rebucket`: changes how many buckets a deployment has."""

import uuid

import click

from chong.cli.invocation import Invocation
from chong.cli.option import issuer_option, json_option, reason_option
from chong.cli.render import Column, escape
from chong.cli.screen import print_json, print_table, show_progress
from chong.cli.times import stamp
from chong.store.buckets import BucketPolicy
from chong.store.contract import TaskStore
from chong.store.errors import ConfigurationError
from chong.store.model import HoldScope
from chong.store.open import open_store
from chong.store.pages import all_tasks, count_tasks
from chong.store.query import TaskQuery
from chong.store.rebucketing import Rebucketing, check_at_rest
from chong.store.states import RUNS, WAITING
from chong.supervisor.exits import Exit

_CHANGES = (
    Column("AT"),
    Column("FROM", right=True),
    Column("TO", right=True),
    Column("WAITING", right=True),
    Column("MOVED", right=True),
    Column("BY", floor=8),
    Column("REASON", floor=10),
)


@click.command()
@click.argument("number", metavar="[NUMBER]", type=int, required=False)
@click.option("--yes", is_flag=True, help="Needed: every node has to be configured anew.")
@click.option("--dry-run", is_flag=True, help="Only say how many tasks would move.")
@reason_option("kept with the change and with each task that moves")
@issuer_option
@json_option
@click.pass_obj
def rebucket(
    call: Invocation,
    *,
    number: int | None,
    yes: bool,
    dry_run: bool,
    reason: str | None,
    issued_by: str,
    as_json: bool,
) -> Exit:
    """Change the number of buckets; without NUMBER show each change of it.

    Refused while a node is live, drained or not, a run is open, or a bucket is held. Each waiting task with a key goes
    to its new bucket, and what the nodes had declared is dropped: give them the new number and their new buckets, and
    start them. All of it happens, or nothing.
    """
    if number is None:
        return _show(call, as_json=as_json)
    policy = BucketPolicy(number)
    if not (yes or dry_run):
        raise ConfigurationError("--yes: expected it beside rebucket, got none; --dry-run counts what would move")
    # Not `reach`: a chong.toml may have the old number or the new one, whichever was first.
    with open_store(call.url, create=False) as store:
        if dry_run:
            before, waiting, moved = _count(store, policy)
        else:
            done = _rebucket(store, number, issued_by, reason)
            before, waiting, moved = done.before, done.waiting, done.moved
    if as_json:
        print_json({"before": before, "after": number, "waiting": waiting, "moved": moved, "dry_run": dry_run})
    else:
        would = "would move" if dry_run else "moved; start each node with its new buckets"
        print(f"{before} to {number} buckets: {moved} of {waiting} waiting tasks with a key {would}")
    return Exit.DONE


def _show(call: Invocation, *, as_json: bool) -> Exit:
    with open_store(call.url, create=False, on_unreadable=call.unread.tell) as store:
        changes, number = store.rebucketings(), store.deployment().num_buckets
    if as_json:
        print_json({"num_buckets": number, "changes": changes})
        return Exit.DONE
    print("number of buckets not recorded yet" if number is None else f"{number} buckets")
    if changes:
        print_table(_CHANGES, [_cells(change) for change in changes])
    return Exit.DONE


def _cells(change: Rebucketing) -> list[str]:
    numbers = (change.before, change.after, change.waiting, change.moved)
    return [stamp(change.at) or "", *map(str, numbers), escape(change.by), escape(change.reason or "")]


def _count(store: TaskStore, policy: BucketPolicy) -> tuple[int, int, int]:
    before = check_at_rest(
        recorded=store.deployment().num_buckets,
        live=[node.node for node in store.nodes() if node.is_live],
        runs=count_tasks(store, TaskQuery(statuses=RUNS)),
        held=[hold.target for hold in store.holds().holds if hold.scope is HoldScope.BUCKET],
    )
    keyed = [task for task in all_tasks(store, TaskQuery(statuses=WAITING)) if task.bucket_key is not None]
    moved = sum(policy.bucket_of(task.bucket_key or "") != task.bucket for task in keyed)
    return before, len(keyed), moved


def _rebucket(store: TaskStore, number: int, actor: str, reason: str | None) -> Rebucketing:
    event_id = f"rebucket.{uuid.uuid4().hex}"
    try:
        return store.rebucket(
            number,
            event_id,
            actor=actor,
            reason=reason,
            on_progress=lambda seen, waiting: show_progress(f"{seen} of {waiting} waiting tasks"),
        )
    finally:
        show_progress("")
