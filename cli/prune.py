"""`chong prune`: removes what is old from the store, and writes it down before where that is wanted."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path

import click

from chong.cli.archive import Archive
from chong.cli.invocation import Invocation
from chong.cli.option import json_option
from chong.cli.reach import reach
from chong.cli.render import escape
from chong.cli.screen import print_json, remark, show_progress
from chong.cli.values import read_age, reads
from chong.store.contract import TaskStore
from chong.store.errors import ConfigurationError, StoreUnavailable
from chong.store.model import TaskRecord
from chong.supervisor.oneline import counted, one_line

BATCH = 100
LEAST_AGE = timedelta(days=1)
"""Of what is removed without more ado."""


def _read_archive(name: str) -> Path:
    """Only of a file somebody can say what is on the disk: no other output is an archive."""
    if name in {"", "-"}:
        advice = ", standard output keeps nothing; ./- is a file of that name" if name else ""
        raise ValueError(f"expected the name of a file, got {name!r}{advice}")
    return Path(name)


@click.command()
@click.option(
    "--older-than", "said", metavar="TIME", required=True, help='Ended longer ago, like "90d"; below 1d with --yes.'
)
@click.option(
    "--archive",
    type=click.Path(path_type=str),
    metavar="FILE",
    callback=reads(_read_archive),
    help="Write them down before; .gz packs.",
)
@click.option("--dry-run", is_flag=True, help="Only say how many tasks would go.")
@click.option("--yes", is_flag=True, help="Also what ended less than a day ago.")
@json_option
@click.pass_obj
def prune(call: Invocation, *, said: str, archive: Path | None, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove tasks that ended long ago, with all that is kept of them.

    Covers all nodes of the store. Old firings of schedules and terms of supervisors go along. Logs lie on their nodes
    and go by those nodes' own settings. The archive has one JSON object per line for each task.
    """
    age = _read_age(said)
    needs_yes = age < LEAST_AGE and not yes
    if needs_yes and not dry_run:
        advice = _guess(said) or "; --dry-run counts what would go"
        raise ConfigurationError(f"--older-than: expected at least 1d, or --yes beside it, got {said!r}{advice}")
    with reach(call) as reached, ExitStack() as ends:
        chest = None if archive is None else ends.enter_context(closing(Archive(archive)))
        if dry_run:
            tasks, traces = reached.store.count_prunable(age), None
        else:
            tasks, traces = _remove_tasks(reached.store, age, chest), _remove_traces(reached.store, age)
            _tidy(reached.store)
    if as_json:
        print_json({"tasks": tasks, "traces": traces, "archive": archive and str(archive), "dry_run": dry_run})
    elif dry_run:
        print(f"{counted(tasks, 'task')} would be removed")
    else:
        print(f"{counted(tasks, 'task')} removed, and {traces} old firings and terms")
    if needs_yes:
        remark(f"chong: --older-than: {said!r} is less than 1d, so to remove them takes --yes{_guess(said)}")


def _read_age(said: str) -> timedelta:
    try:
        return read_age(said)
    except ValueError as error:
        raise ConfigurationError(f"--older-than: {error}") from None


def _guess(said: str) -> str:
    """A bare number is seconds, and hardly meant as such; "0" takes all that is finished."""
    return f"; did you mean {said}d?" if said.isdecimal() and int(said) else ""


def _remove_tasks(store: TaskStore, age: timedelta, archive: Archive | None) -> int:
    """A batch is on the disk before it goes, and what somebody else has removed meanwhile is in his archive alone.

    The same batch twice ends it: others write to these tasks now.
    """
    wanted, gone, before = store.count_prunable(age), 0, set[str]()
    try:
        while (records := store.prunable(age, limit=BATCH)) and (ids := {each.task.id for each in records}) != before:
            if archive is not None:
                archive.add(records)
            went = _pruned(store, records, archive)
            if archive is not None and went != ids:
                archive.keep([record for record in records if record.task.id in went])
            gone, before = gone + len(went), ids
            show_progress(f"{gone} of {counted(wanted, 'task')} removed")
    finally:
        show_progress("")
    return gone


def _pruned(store: TaskStore, records: Sequence[TaskRecord], archive: Archive | None) -> set[str]:
    try:
        return store.prune(records)
    except StoreUnavailable:
        if archive is not None:
            batch = f"the last batch of {archive.path} ({counted(len(records), 'task')})"
            remark(f"chong: {escape(batch)} may still be in the store; the next prune then archives it once more")
        raise


def _tidy(store: TaskStore) -> None:
    """What is empty now need not wait for a supervisor's next turn, which does the same."""
    try:
        store.upkeep()
    except StoreUnavailable as error:
        remark(f"chong: the tables of months that are empty stay until a supervisor drops them: {one_line(str(error))}")


def _remove_traces(store: TaskStore, age: timedelta) -> int:
    gone = 0
    while last := store.prune_traces(age):
        gone += last
    return gone
