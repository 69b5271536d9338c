"""What a node keeps of its tasks, and of nobody else's: submissions with their parameters, the newest `state` of each
open task, which of them belong together, writes that the store has not got, and files of runs.

Never in the shared store. One place, so that whatever ends a task leaves nothing of it behind that is not wanted. What
was kept survives the supervisor and a loss of power: it is on the disk before anybody hears of it.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chong.store.errors import ConfigurationError
from chong.supervisor.loop import Loop
from chong.supervisor.paths import Paths
from chong.supervisor.spool_file import SpoolError, SpoolFile, Statement
from chong.supervisor.spool_writer import SpoolWriter, Then, Write
from chong.supervisor.submission import Submission, from_json, to_json
from chong.supervisor.unsent import Unsent, from_text, to_text
from chong.worker.result import encode_state

KEPT_BYTES = 256 * 1024**2
"""What submissions of tasks that are over may take together: the oldest go first, whatever their age."""


class UnreadableState(Exception):  # noqa: N818 - a finding
    """The state of a checkpoint that cannot be read; it was set aside."""


@dataclass(slots=True)
class Spooled:
    """What a term finds in its spool; `unreadable` names what was set aside because it cannot be read."""

    submissions: dict[str, Submission] = field(default_factory=dict)
    """Accepted, and not over as far as this node knows; as they came."""
    stored: set[str] = field(default_factory=set)
    """Of these, what the store has had."""
    unsent: list[Unsent] = field(default_factory=list)
    terms: frozenset[str] = frozenset()
    """Who has written here since the last term that met the store, with that one; none in a new spool."""
    unreadable: list[str] = field(default_factory=list)


class GroupRow(NamedTuple):
    """A group as it lies there; times in seconds since the epoch."""

    id: str
    content: str
    accepted_at: float
    ended_at: float | None = None


class MemberEnd(NamedTuple):
    """Of which group it was a member, and with which status it ended."""

    group_id: str
    status: str


class Spool:
    """By task id; `run` is one attempt's identity. For the loop's thread, but for `is_open` and `prune`.

    `complain` hears what could not be written and costs only what it says: an event's name and the error.
    """

    def __init__(self, paths: Paths, loop: Loop, complain: Callable[[str, Exception | None], None]) -> None:
        self._paths = paths
        self._loop = loop
        self._complain = complain
        self._open: set[str] = set()
        self._states: dict[str, str] = {}
        """On their way to the disk."""
        self._terms: frozenset[str] = frozenset()
        self._file: SpoolFile
        self._writer: SpoolWriter | None = None

    def open(self, term: str) -> None:
        """Before anything else is asked of it, and before the store hears of the term; errors as SpoolFile has them."""
        self._file = SpoolFile(self._paths.spool)
        self._terms = frozenset(name for (name,) in self._file.read("terms"))
        try:
            self._file.write([("begin_term", {"id": term})])
        except SpoolError as error:  # a full disk
            self._complain("term_not_marked", error)
        self._writer = SpoolWriter(self._file, self._loop)

    @property
    def damaged(self) -> str | None:
        """Where the file lies that could not be read, when one was found."""
        return None if self._file.damaged is None else str(self._file.damaged)

    def close(self, timeout: float) -> None:
        """Write what is left; once that took longer, the connections are left to the end of the process."""
        if self._writer is not None and self._writer.close(timeout):
            self._file.close()

    # --- the beginning of a term ---------------------------------------------------------------------------------

    def replay(self) -> Spooled:
        """SpoolError when it cannot be read at all."""
        found = Spooled(terms=self._terms)
        for id_, content, was_stored in self._file.read("open_submissions"):
            try:
                submission = _submission(content)
            except (ValueError, ConfigurationError):
                self._set_aside("submission", id_, drop="forget_submission")
                found.unreadable.append(f"submission {id_}")
                continue
            found.submissions[id_] = submission
            if was_stored:
                found.stored.add(id_)
        for id_, content in self._file.read("unsent"):
            try:
                found.unsent.append(from_text(id_, content))
            except ValueError:
                self._set_aside("unsent", id_, drop="drop_unsent")
                found.unreadable.append(f"unsent write {id_}")
        self._open = set(found.submissions)
        self._put("spool_not_pruned", ("drop_lone_states", {}))
        return found

    def meet_store(self, term: str) -> None:
        """The store knows this term as the node's newest."""
        self._put("term_not_marked", ("begin_term", {"id": term}), ("meet_store", {"id": term}))

    # --- submissions -------------------------------------------------------------------------------------------

    def keep(self, submission: Submission, then: Then) -> None:
        """`then` hears when the submission survives whatever may come, or why it does not."""
        values = {"id": submission.id, "content": _text(submission), "now": time.time()}
        self._open.add(submission.id)
        self._write(Write((("keep_submission", values),), then, is_urgent=True))

    def keep_group(self, group_id: str, content: str, members: Sequence[Submission], then: Then) -> None:
        """As `keep`, of a group and all its members: all of them, or nothing."""
        now = time.time()
        statements: list[Statement] = [("keep_group", {"id": group_id, "content": content, "now": now})]
        for member in members:
            self._open.add(member.id)
            statements.append(("keep_submission", {"id": member.id, "content": _text(member), "now": now}))
        self._write(Write(tuple(statements), then, is_urgent=True))

    def complete(self, submission: Submission, then: Then) -> None:
        """Replace one that was kept by what it is now."""
        statement = "complete_submission", {"id": submission.id, "content": _text(submission)}
        self._write(Write((statement,), then, is_urgent=True))

    def mark_stored(self, task_id: str, then: Callable[[], object] = lambda: None) -> None:
        """The store has had the task: should it not know it any more one day, it is not to be run.

        `then` is called when the disk knows, or does not take it.
        """

        def marked(error: SpoolError | None) -> None:
            self._complain("stored_not_marked", error)
            then()

        self._write(Write((("mark_stored", {"id": task_id}),), marked, is_urgent=True))

    def forget(self, task_id: str) -> None:
        """It was not accepted after all."""
        self._open.discard(task_id)
        self._put("spool_not_dropped", ("forget_submission", {"id": task_id}), _dropped_state(task_id))

    def is_open(self, task_id: str) -> bool:
        """Whether the task may still need its files; any thread may ask."""
        return task_id in self._open

    def submission(self, task_id: str) -> Submission | None:
        """What was accepted under this id, whether it is over or not; SpoolError, ValueError, ConfigurationError."""
        found = self._file.read("submission", id=task_id)
        return _submission(found[0][0]) if found else None

    # --- groups --------------------------------------------------------------------------------------------------

    def open_groups(self) -> list[GroupRow]:
        """As they came; SpoolError."""
        return [GroupRow(*row) for row in self._file.read("open_groups")]

    def groups_by_part(self, part: str, limit: int) -> list[GroupRow]:
        """Whose id is, begins or ends with `part`, the newest first; SpoolError."""
        return [GroupRow(*row) for row in self._file.read("groups_by_part", part=part, limit=limit)]

    def member_ends(self, group_id: str) -> dict[str, str]:
        """By member the status that it ended with, as far as that is on the disk; SpoolError."""
        return dict(self._file.read("member_ends", group_id=group_id))

    def end_group(self, group_id: str) -> None:
        self._put("spool_not_dropped", ("end_group", {"id": group_id, "now": time.time()}))

    def set_group_aside(self, group_id: str) -> None:
        """It cannot be read."""
        self._set_aside("group", group_id, drop="drop_group")

    # --- states --------------------------------------------------------------------------------------------------

    def keep_state(self, task_id: str, text: str, then: Then) -> None:
        """The `state` of a checkpoint, as JSON text."""

        def kept(error: SpoolError | None) -> None:
            if self._states.get(task_id) is text:
                del self._states[task_id]
            then(error)

        self._states[task_id] = text
        values = {"id": task_id, "content": text}
        self._write(Write((("keep_state", values),), kept, is_urgent=False))

    def when_kept(self, task_id: str, then: Callable[[], object]) -> None:
        """Call `then` when the states that were kept of this task are on the disk, or will never be there."""
        if task_id in self._states:
            self._write(Write((), lambda _: then(), is_urgent=True))
        else:
            then()

    def last_state(self, task_id: str) -> Any:
        """What the last attempt kept; None when it kept nothing.

        UnreadableState when there is one that cannot be read: it is set aside, and the next call finds none. SpoolError
        when nothing can be read at the moment.
        """
        if task_id in self._states:
            return json.loads(self._states[task_id])
        found = self._file.read("state", id=task_id)
        if not found:
            return None
        try:
            state = json.loads(found[0][0])
            encode_state(state)
        except (TypeError, ValueError, RecursionError) as error:
            self._set_aside("state", task_id, drop="drop_state")
            raise UnreadableState(str(error)) from error
        return state

    # --- writes that the store has not got -----------------------------------------------------------------------

    def keep_unsent(self, unsent: Sequence[Unsent], otherwise: Callable[[Sequence[Unsent]], None]) -> None:
        """`otherwise` is given them back when the disk does not take them."""

        def kept(error: SpoolError | None) -> None:
            self._complain("unsent_not_kept", error)
            if error is not None:
                otherwise(unsent)

        statements = tuple(("keep_unsent", {"id": each.id, "content": to_text(each)}) for each in unsent)
        if statements:
            self._write(Write(statements, kept, is_urgent=False))

    def drop_unsent(self, ids: Iterable[str]) -> None:
        self._put("spool_not_dropped", *[("drop_unsent", {"id": id_}) for id_ in ids])

    # --- the end -------------------------------------------------------------------------------------------------

    def drop(
        self, task_id: str, attempt: int, member: MemberEnd | None = None, notice: Mapping[str, Any] | None = None
    ) -> None:
        """The task is over; its submission stays for a rerun.

        member: what it was in a group. notice: what somebody is to be told of it, kept until `drop_notices`.
        """
        self._open.discard(task_id)
        self._states.pop(task_id, None)
        ended: list[Statement] = [("end_submission", {"id": task_id, "now": time.time()}), _dropped_state(task_id)]
        if member is not None:
            ended.append(("end_member", {"id": task_id, "group_id": member.group_id, "status": member.status}))
        if notice is not None:
            ended.append(("keep_notice", {"id": task_id, "content": json.dumps(notice)}))
        self._put("spool_not_dropped", *ended)
        self.drop_run(f"{task_id}.{attempt}")

    def notices(self) -> list[dict[str, Any]]:
        """What somebody is still to be told, as it came; SpoolError."""
        found = []
        for id_, content in self._file.read("notices"):
            try:
                notice = dict(json.loads(content))
                found.append({**notice, "id": id_, "name": str(notice["name"])})
            except (ValueError, TypeError, KeyError, RecursionError):
                self._set_aside("notice", id_, drop="drop_notice")
        return found

    def drop_notices(self, ids: Iterable[str]) -> None:
        self._put("spool_not_dropped", *[("drop_notice", {"id": id_}) for id_ in ids])

    def drop_run(self, run: str) -> None:
        """Remove what a run has left in its own directory; most runs have none."""
        directory = self._paths.run_dir(run)
        if directory.exists():
            shutil.rmtree(directory, ignore_errors=True)

    def prune(self, kept_until: float | None, unreadable_until: float | None) -> None:
        """Let go of what ended, and of what was set aside, before these seconds since the epoch; any thread may ask."""
        kept = {"until": float("-inf") if kept_until is None else kept_until, "most": KEPT_BYTES}
        statements: list[Statement] = [("prune_kept", kept), ("prune_groups", kept), ("prune_member_ends", {})]
        if unreadable_until is not None:
            statements.append(("prune_unreadable", {"until": unreadable_until}))
        self._put("spool_not_pruned", *statements)

    def _set_aside(self, kind: str, id_: str, *, drop: str) -> None:
        aside = (f"set_aside_{kind}", {"id": id_, "now": time.time()})
        self._put("spool_not_dropped", aside, (drop, {"id": id_}))

    def _put(self, trouble: str, *statements: Statement) -> None:
        if statements:
            self._write(Write(statements, lambda error: self._complain(trouble, error), is_urgent=False))

    def _write(self, write: Write) -> None:
        assert self._writer is not None, "the spool is open"
        self._writer.put(write)


def _text(submission: Submission) -> str:
    return json.dumps(to_json(submission), separators=(",", ":"))


def _dropped_state(task_id: str) -> Statement:
    return "drop_state", {"id": task_id}


def _submission(content: object) -> Submission:
    """ValueError or ConfigurationError when it is none."""
    try:
        return from_json(json.loads(content))  # type: ignore[arg-type]
    except (TypeError, RecursionError) as error:
        raise ValueError(f"expected a submission, got {error}") from error
