"""One task as a line of a table."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from chong.cli.find import TAIL
from chong.cli.render import Cell, Column
from chong.cli.times import span
from chong.store.model import CatalogueEntry, Failure, Progress, TaskSnapshot
from chong.store.states import WAITING, Status
from chong.supervisor.holds import EVERYTHING

COLUMNS = (
    Column("ID"),
    Column("NAME", floor=8),
    Column("KEY", floor=4),
    Column("BUCKET", right=True),
    Column("STATUS"),
    Column("ATTEMPT", right=True),
    Column("AGE", right=True),
    Column("RAN", right=True),
    Column("CPU", right=True),
    Column("MEM", right=True),
    Column("NODE", floor=6),
    Column("PROGRESS", floor=8),
    Column("CAUSE", floor=8),
)

_MEBIBYTE = 1024 * 1024
_MEBIBYTES_OF_A_GIBIBYTE = 1024
_TENTHS_BELOW = 9.95

_STYLES = {
    Status.SUCCEEDED: "good",
    Status.RUNNING: "busy",
    Status.STARTING: "busy",
    Status.FAILED: "bad",
    Status.LOST: "bad",
    Status.STOPPED: "dim",
    Status.CANCELLED: "dim",
}


def task_row(task: TaskSnapshot, now: datetime, *, full_id: bool = False, is_held: bool = False) -> list[Cell | str]:
    """AGE is the time since the task was created, RAN how long its last attempt has been, or was, under way.

    CPU is the processor time that a living run has used, MEM the memory that it has now.
    """
    ran = ran_for(task, now)
    return [
        task.id if full_id else task.id[-TAIL:],
        task.name,
        task.bucket_key or "",
        "" if task.bucket is None else str(task.bucket),
        status_cell(task.status, is_held=is_held),
        f"{task.attempts_used}/{task.max_attempts}",
        span(now - task.created_at),
        "" if ran is None else span(ran),
        *_usage_cells(task),
        task.node,
        progress_text(task.progress) or "",
        cause_text(task.failure) or "",
    ]


def status_cell(status: Status, *, is_held: bool = False) -> Cell:
    return Cell(f"{status} (held)" if is_held else status.value, _STYLES.get(status, "wait"))


Holds = Mapping[tuple[str, str], str]
"""By node and name."""


def holds_in(catalogue: Iterable[CatalogueEntry]) -> Holds:
    return {(entry.node, entry.name): entry.hold for entry in catalogue if entry.hold}


def hold_on(task: TaskSnapshot, holds: Holds) -> str | None:
    """Why a waiting task does not start, where its name is held on its node."""
    if task.status not in WAITING:
        return None
    return holds.get((task.node, task.name)) or holds.get((task.node, EVERYTHING))


def _usage_cells(task: TaskSnapshot) -> tuple[str, str]:
    if task.usage is None or not task.status.is_run:
        return "", ""
    return span(task.usage.cpu_seconds), size_text(task.usage.rss_bytes) or ""


def size_text(size: int | None) -> str | None:
    """As people read it: "0.4M", "12M", "3.1G"."""
    if size is None:
        return None
    mebibytes = size / _MEBIBYTE
    if mebibytes < _TENTHS_BELOW:
        return f"{mebibytes:.1f}M"
    return f"{mebibytes:.0f}M" if mebibytes < _MEBIBYTES_OF_A_GIBIBYTE else f"{mebibytes / 1024:.1f}G"


def ran_for(task: TaskSnapshot, now: datetime) -> timedelta | None:
    if task.started_at is None or task.status in WAITING:
        return None
    return (task.ended_at or now) - task.started_at


def progress_text(progress: Progress | None) -> str | None:
    if progress is None:
        return None
    done = "" if progress.done is None else f"{progress.done:.12g}"
    total = "" if progress.total is None else f"/{progress.total:.12g}"
    return f"{done}{total} {progress.message or ''}".strip() or None


def cause_text(failure: Failure | None) -> str | None:
    """Kind, cause and message, without what one repeats of the other."""
    if failure is None:
        return None
    cause = failure.cause if failure.kind == failure.cause else f"{failure.kind} {failure.cause}"
    return f"{cause}: {failure.message}" if failure.message else cause
