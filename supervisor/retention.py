"""What a node lets go of by itself: old logs, what was left or set aside in its spool, and old tasks in the store.

Each in a thread of its own, some minutes apart. Nothing of an open task ever goes: the spool tells that it is
open, and its log is the proof that it has run. A directory may hold millions of files, so none
is remembered: sizes are added up by the minute in which a log was last written.
"""

import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from chong.store.contract import TaskStore
from chong.store.errors import ChongError
from chong.supervisor.recurring import Recurring
from chong.supervisor.settings import Settings
from chong.supervisor.spool import Spool
from chong.supervisor.spool_file import DAMAGED_SUFFIX

OnPruned = Callable[[dict[str, int]], None]

EVERY_SECONDS = 600.0
AGAIN_SECONDS = 1.0
"""Between two turns when the first one has not done all."""
BATCHES = 10
BATCH = 100
TRACES = 1000
TRACES_DAYS = 30
DAY = 86_400
GIBIBYTE = 1024**3
MINUTE = 60
LEAST_SIZE = 4096
"""What a file counts at least: an empty one still takes its place in the directory."""
_LOG = re.compile(r"(?:(?P<task>[0-9a-f-]{36})\.\d+|generation-(?P<generation>\d+))\.log\Z")


def oldest_to_keep(sizes: Mapping[int, int], most: float) -> int:
    """The first of the newest minutes whose logs together take at most `most` bytes; `sizes` are bytes by minute."""
    total, kept = 0, max(sizes, default=0) + 1
    for minute in sorted(sizes, reverse=True):
        total += sizes[minute]
        if total > most:
            break
        kept = minute
    return kept


class Log(NamedTuple):
    """A log as it was found; `size` is what it takes on the disk."""

    path: str
    task: str | None
    generation: str | None
    written: float
    size: int


class FileRetention:
    """Lets files go by their age and, as for logs, by what they take together.

    `on_pruned` hears what went, by name; `trouble` what kept a turn from its end.
    """

    def __init__(self, settings: Settings, spool: Spool, *, on_pruned: OnPruned, trouble: Recurring) -> None:
        self._paths = settings.paths
        self._spool = spool
        self._keep_logs = settings.keep_logs
        self._most = float("inf") if settings.keep_logs_gib is None else settings.keep_logs_gib * GIBIBYTE
        self._keep_spool = settings.keep_spool
        self._keep_submissions = settings.keep_submissions
        self._on_pruned = on_pruned
        self._trouble = trouble
        self._fault: OSError | None = None
        """What kept a file of this turn from being removed; the others go all the same."""

    def turn(self) -> float:
        """Let go of what has had its time; the seconds until the next turn."""
        gone: Counter[str] = Counter()
        now = time.time()
        self._fault = None
        for prune in (self._prune_logs, self._prune_spool):
            try:
                prune(gone, now)
            except OSError as error:
                self._fault = error
        if self._fault is not None:
            self._trouble.again(self._fault)
        else:
            self._trouble.end()
        if gone:
            self._on_pruned(dict(gone))
        return EVERY_SECONDS

    def _prune_logs(self, gone: Counter[str], now: float) -> None:
        sizes: Counter[int] = Counter()
        for log in self._logs():
            if is_outworn(log.written, now, self._keep_logs) and not self._is_open(log, now):
                self._remove(log, gone)
            else:
                sizes[int(log.written) // MINUTE] += log.size
        if sizes.total() > self._most:
            first = oldest_to_keep(sizes, self._most)
            for log in self._logs():
                if int(log.written) // MINUTE < first and not self._is_open(log, now):
                    self._remove(log, gone)

    def _logs(self) -> Iterator[Log]:
        with os.scandir(self._paths.logs) as entries:
            for entry in entries:
                found = _LOG.match(entry.name)
                if found is None:
                    continue
                try:
                    facts = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # somebody else removed it
                size = max(LEAST_SIZE, facts.st_blocks * 512)
                yield Log(entry.path, found["task"], found["generation"], facts.st_mtime, size)

    def _is_open(self, log: Log, now: float) -> bool:
        """Whether somebody may still need the log; what was written just now may belong to what is just starting."""
        if now - log.written < MINUTE:
            return True
        if log.task is not None:
            return self._spool.is_open(log.task)
        return self._paths.generation_lock(int(log.generation or 0)).exists()

    def _prune_spool(self, gone: Counter[str], now: float) -> None:
        self._spool.prune(_until(now, self._keep_submissions), _until(now, self._keep_spool))
        for path in self._left_behind():
            try:
                if is_outworn(path.lstat().st_mtime, now, self._keep_spool):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                    gone["spool"] += 1
            except FileNotFoundError:
                continue  # somebody else removed it
            except OSError as error:
                self._fault = error

    def _remove(self, log: Log, gone: Counter[str]) -> None:
        try:
            Path(log.path).unlink(missing_ok=True)
        except OSError as error:
            self._fault = error
            return
        gone["logs"] += 1
        gone["bytes"] += log.size

    def _left_behind(self) -> Iterator[Path]:
        """A spool that was set aside, and directories of runs whose tasks are not open any more."""
        yield from self._paths.state.glob(f"{self._paths.spool.name}.*{DAMAGED_SUFFIX}*")
        for path in self._paths.runs.glob("[!.]*.*"):
            if not self._spool.is_open(path.name.split(".")[0]):
                yield path


class StoreRetention:
    """Removes tasks from the store that ended more than `keep` days ago, a bounded number in each turn.

    With None they stay. Old firings and terms go in any case: nobody looks at them any more. tables, rows: the
    troubles with the upkeep of the tables and with the rows; where the first fails the second may go well.
    """

    def __init__(
        self, store: TaskStore, keep: float | None, *, on_pruned: OnPruned, tables: Recurring, rows: Recurring
    ) -> None:
        self._store = store
        self._keeps_tasks = keep is None
        self._age = timedelta(days=TRACES_DAYS if keep is None else keep)
        self._on_pruned = on_pruned
        self._of_tables, self._of_rows = tables, rows

    def turn(self) -> float:
        gone: Counter[str] = Counter()
        is_more = False
        try:
            self._store.upkeep()
        except ChongError as error:  # a role that may not make tables can prune all the same
            self._of_tables.again(error)
        else:
            self._of_tables.end()
        try:
            for _ in range(BATCHES):
                if not (is_more := self._prune_batch(gone)):
                    break
        except ChongError as error:
            self._of_rows.again(error)
        else:
            self._of_rows.end()
        if gone := +gone:
            self._on_pruned(dict(gone))
        return AGAIN_SECONDS if is_more else EVERY_SECONDS

    def _prune_batch(self, gone: Counter[str]) -> bool:
        """Whether there is more; the traces' turn comes when the tasks are done."""
        if not self._keeps_tasks:
            records = self._store.prunable(self._age, limit=BATCH)
            went = self._store.prune(records)
            gone["tasks"] += len(went)
            if went:
                return True
        traces = self._store.prune_traces(self._age, limit=TRACES)
        gone["traces"] += traces
        return traces >= TRACES


def is_outworn(written: float, now: float, days: float | None) -> bool:
    """Whether something that was last written at `written` has been there for longer than `days`."""
    return days is not None and now - written > days * DAY


def _until(now: float, days: float | None) -> float | None:
    return None if days is None else now - days * DAY


def retentions(
    settings: Settings,
    store: TaskStore,
    spool: Spool,
    *,
    on_pruned: OnPruned,
    files: Recurring,
    tables: Recurring,
    rows: Recurring,
) -> list[tuple[str, Callable[[], float]]]:
    """The turns of a node with these settings, by the name of their thread."""
    of_files = FileRetention(settings, spool, on_pruned=on_pruned, trouble=files)
    of_store = StoreRetention(store, settings.keep_tasks, on_pruned=on_pruned, tables=tables, rows=rows)
    return [("chong-retention", of_files.turn), ("chong-pruning", of_store.turn)]
