"""One task as a line of a table."""

from datetime import datetime, timedelta
from typing import Any

from chong.cli.ending import end_text
from chong.cli.find import TAIL
from chong.cli.render import Cell, Column
from chong.cli.standing import UNKNOWN, Standing, mark_of
from chong.cli.times import span
from chong.store.model import Progress, TaskSnapshot
from chong.store.states import WAITING, Status
from chong.store.view import as_json as view_of

COLUMNS = (
    Column("ID"),
    Column("NAME", floor=20),
    Column("KEY", floor=4, spare=5),
    Column("BUCKET", right=True, spare=7),
    Column("STATUS"),
    Column("ATTEMPT", right=True, spare=3),
    Column("AGE", right=True, spare=6),
    Column("RAN", right=True, spare=2),
    Column("CPU", right=True, spare=8),
    Column("MEM", right=True, spare=9),
    Column("NODE", floor=6, spare=4),
    Column("PROGRESS", floor=8, spare=1),
    Column("END", floor=24),
)

_MEBIBYTE = 1024 * 1024
_MEBIBYTES_OF_A_GIBIBYTE = 1024
_TENTHS_BELOW = 9.95

STYLES: dict[str, str] = {
    Status.SUCCEEDED: "good",
    Status.RUNNING: "busy",
    Status.STARTING: "busy",
    Status.FAILED: "bad",
    Status.LOST: "bad",
    Status.STOPPED: "dim",
    Status.CANCELLED: "dim",
}


def task_row(
    task: TaskSnapshot, now: datetime, standing: Standing = UNKNOWN, *, full_id: bool = False
) -> list[Cell | str]:
    """AGE is the time since the task was created, RAN how long its last attempt has been, or was, under way.

    CPU is the processor time that a living run has used, MEM the memory that it has now, END how it ended.
    """
    ran = ran_for(task, now)
    return [
        task.id if full_id else task.id[-TAIL:],
        task.name,
        task.bucket_key or "",
        "" if task.bucket is None else str(task.bucket),
        _standing_cell(task, standing, now),
        f"{task.attempts_used}/{task.max_attempts}",
        span(now - task.created_at),
        "" if ran is None else span(ran),
        *_usage_cells(task),
        task.node,
        progress_text(task.progress) or "",
        end_text(task) or "",
    ]


def status_cell(status: Status) -> Cell:
    return Cell(status.value, STYLES.get(status, "wait"))


def _standing_cell(task: TaskSnapshot, standing: Standing, now: datetime) -> Cell:
    """What runs only by its last word looks like trouble, whatever that word was."""
    plain = status_cell(task.status)
    mark = mark_of(task, standing, now)
    is_trouble = standing.lease_is_past or not standing.node_is_live
    style = "bad" if is_trouble else "dim" if standing.resolved is not None else plain.style
    return Cell(f"{plain.text} ({mark})", style) if mark else plain


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
    if task.started_at is None or task.status in WAITING | {Status.CANCELLED}:
        return None
    return (task.ended_at or now) - task.started_at


def progress_text(progress: Progress | None) -> str | None:
    if progress is None:
        return None
    done = "" if progress.done is None else f"{progress.done:.12g}"
    total = "" if progress.total is None else f"/{progress.total:.12g}"
    return f"{done}{total} {progress.message or ''}".strip() or None


def task_json(task: TaskSnapshot, standing: Standing) -> dict[str, Any]:
    """The snapshot, and whether it is still true: nobody changes it when its holder is gone."""
    judged = {
        "lease_is_past": standing.lease_is_past,
        "node_is_live": standing.node_is_live,
        "resolved": view_of(standing.resolved),
    }
    return {**view_of(task), **judged}
