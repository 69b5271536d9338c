"""`chong prune`: removes what is old from the store, and writes it down before where that is wanted."""

from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path

import click

from chong.cli.archive import Archive
from chong.cli.invocation import Invocation
from chong.cli.option import json_option
from chong.cli.reach import reach
from chong.cli.screen import print_json, show_progress
from chong.cli.values import read_age, reads
from chong.store.contract import TaskStore

BATCH = 100


@click.command()
@click.option("--older-than", "age", required=True, callback=reads(read_age), help='Ended longer ago, like "90d".')
@click.option("--archive", type=click.Path(path_type=Path), metavar="FILE", help="Write them down before; .gz packs.")
@click.option("--dry-run", is_flag=True, help="Only say how many tasks would go.")
@json_option
@click.pass_obj
def prune(call: Invocation, *, age: timedelta, archive: Path | None, dry_run: bool, as_json: bool) -> None:
    """Remove tasks that ended long ago, with all that is kept of them.

    Covers all nodes of the store. Old firings of schedules and terms of supervisors go along. Logs lie on their nodes
    and go by those nodes' own settings. The archive has one JSON object per line for each task.
    """
    with reach(call) as reached, ExitStack() as ends:
        chest = None if archive is None else ends.enter_context(closing(Archive(archive)))
        if dry_run:
            tasks, traces = reached.store.count_prunable(age), 0
        else:
            tasks, traces = _remove_tasks(reached.store, age, chest), _remove_traces(reached.store, age)
    if as_json:
        print_json({"tasks": tasks, "traces": traces, "archive": archive and str(archive), "dry_run": dry_run})
    elif dry_run:
        print(f"{tasks} tasks would be removed")
    else:
        print(f"{tasks} tasks removed, and {traces} old firings and terms")


def _remove_tasks(store: TaskStore, age: timedelta, archive: Archive | None) -> int:
    """A batch is on the disk before it goes; one of which nothing goes ends it, as others write to these tasks now."""
    wanted, gone, last = store.count_prunable(age), 0, 1
    try:
        while last and (records := store.prunable(age, limit=BATCH)):
            if archive is not None:
                archive.add(records)
            last = store.prune(records)
            gone += last
            show_progress(f"{gone} of {wanted} tasks removed")
    finally:
        show_progress("")
    return gone


def _remove_traces(store: TaskStore, age: timedelta) -> int:
    gone = 0
    while last := store.prune_traces(age):
        gone += last
    return gone
