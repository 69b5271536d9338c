"""The groups in this node's hands: which members may run, what they are handed, and which are called off.

Their members are ordinary tasks, all of them queued from the beginning; those whose turn has not come are barred. The
structure lies in the spool, and what has become of the members is in the store: a next term goes on from these.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from chong.store.contract import TaskStore
from chong.store.errors import ChongError, Refused, StoreUnavailable, UnreadableRow
from chong.store.model import Action, TaskSnapshot
from chong.store.pages import PAGE
from chong.store.query import TaskQuery
from chong.store.states import Status
from chong.supervisor import events as e
from chong.supervisor.group_machine import VERDICTS, CallOff, Let, Part, result_of
from chong.supervisor.intake import Intake
from chong.supervisor.live_group import LiveGroup
from chong.supervisor.loop import Loop
from chong.supervisor.recurring import Recurring
from chong.supervisor.spool import Spool
from chong.supervisor.spool_file import SpoolError
from chong.supervisor.task_state import TaskState
from chong.supervisor.tasks import Tasks
from chong.worker.plan import Call, Plan, PlanInvalid, from_json

LOOK_AGAIN = 1.0
"""Seconds until the store, or the disk, is asked once more, when it could not tell or take something."""
ORPHANED = "the structure of its group is not in the spool of its node"


class Groups:
    """Lives in the loop's thread."""

    def __init__(
        self,
        *,
        loop: Loop,
        store: TaskStore,
        spool: Spool,
        tasks: Tasks,
        intake: Intake,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._loop = loop
        self._store = store
        self._spool = spool
        self._tasks = tasks
        self._intake = intake
        self._log = log
        self._handing = Recurring(log, "result_not_handed_on", "result_handed_on", grave=True, concerns_many=True)
        self._groups: dict[str, LiveGroup] = {}
        self._members: dict[str, tuple[LiveGroup, int]] = {}
        tasks.on_forget.append(self._forgotten)

    def get(self, group_id: str) -> LiveGroup | None:
        return self._groups.get(group_id)

    def all(self) -> list[LiveGroup]:
        return list(self._groups.values())

    def statuses(self, group: LiveGroup) -> dict[str, str]:
        """By member, as far as this node knows."""
        found = {group.ids[number]: status.value for number, status in group.ends.items()}
        open_ = ((id_, self._tasks.get(id_)) for id_ in group.ids if id_ not in found)
        return found | {id_: state.task.status.value for id_, state in open_ if state is not None}

    # --- the beginning -----------------------------------------------------------------------------------------

    def add(self, group_id: str, plan: Plan, accepted_at: float) -> LiveGroup:
        """Know a group; its members wait until it begins."""
        group = self._groups[group_id] = LiveGroup(group_id, plan, accepted_at)
        self._members |= {id_: (group, number) for number, id_ in enumerate(group.ids)}
        self._tasks.bar(group.ids)
        return group

    def begin(self, group: LiveGroup) -> None:
        """Let run what may; what is known of members' ends counts."""
        group.has_begun = True
        found = group.machine.begin()
        for number, status in sorted(group.ends.items()):
            found += group.machine.ended(number, VERDICTS[status])
        self._follow(group, found)

    def load(self) -> None:
        """Before anything is taken over: no member may start for want of its group."""
        for row in self._spool.open_groups():
            try:
                plan = from_json(json.loads(row.content))
            except (ValueError, PlanInvalid, RecursionError) as error:
                self._spool.set_group_aside(row.id)
                kept = "table unreadable of the spool"
                self._log.error("group_unreadable", group=row.id, error=str(error), kept=kept)
                continue
            group = self.add(row.id, plan, row.accepted_at)
            numbers = {id_: number for number, id_ in enumerate(group.ids)}
            for id_, status in self._spool.member_ends(row.id).items():
                if id_ in numbers and status in VERDICTS:
                    group.ends[numbers[id_]] = Status(status)

    def resume(self) -> None:
        """What there was is taken over, and what a former term had not stored is taken in again."""
        for state in self._tasks.all():
            if state.task.group_id is not None and state.task.group_id not in self._groups and state.may_start:
                self._call_off(state, "group", ORPHANED)
        for group in list(self._groups.values()):
            if not group.has_begun:
                self._resume(group)

    def _resume(self, group: LiveGroup) -> None:
        unknown = [number for number, id_ in enumerate(group.ids) if self._is_unknown(group, number, id_)]
        if unknown:
            self._ask(group, unknown)
        else:
            self.begin(group)

    def _is_unknown(self, group: LiveGroup, number: int, task_id: str) -> bool:
        """Not in our hands, and not known how it ended, or with which result that others may ask for."""
        if task_id in self._tasks:
            return False
        if (end := group.ends.get(number)) is None:
            return True
        return end is Status.SUCCEEDED and number not in group.results and group.machine.hands_on(number)

    # --- ends of members ---------------------------------------------------------------------------------------

    def _forgotten(self, state: TaskState) -> None:
        """A task has left our hands: mostly because its end is stored, else the store knows who has it."""
        found = self._members.get(state.task.id)
        if found is None:
            return
        group, number = found
        if state.task.status.is_final and state.stored_version >= state.task.version and not state.desynced:
            self._ended(group, number, state.task)
        else:
            self._ask(group, [number])

    def _ended(self, group: LiveGroup, number: int, task: TaskSnapshot) -> None:
        if group.machine.hands_on(number) and task.status is Status.SUCCEEDED:
            group.results[number] = task.outcome
        self._end(group, number, task.status)

    def _end(self, group: LiveGroup, number: int, status: Status) -> None:
        group.ends.setdefault(number, status)
        if group.has_begun:
            self._follow(group, group.machine.ended(number, VERDICTS[status]))

    def _ask(self, group: LiveGroup, numbers: Iterable[int]) -> None:
        ids = {group.ids[number]: number for number in numbers}
        self._intake.courier.do(partial(self._look, group, ids))

    def _look(self, group: LiveGroup, ids: Mapping[str, int]) -> None:
        """In the store's thread."""
        try:
            found = {task.id: task for task in self._read(list(ids))}
        except (StoreUnavailable, UnreadableRow):  # a row that is repaired tells how its member ended
            self._loop.call(partial(self._ask_later, group, list(ids.values())))
        else:
            self._loop.call(partial(self._looked, group, ids, found))

    def _read(self, ids: list[str]) -> Iterator[TaskSnapshot]:
        for first in range(0, len(ids), PAGE):
            part = frozenset(ids[first : first + PAGE])
            yield from self._store.query(TaskQuery(ids=part, limit=PAGE), whole=True)

    def _ask_later(self, group: LiveGroup, numbers: list[int]) -> None:
        self._loop.later(LOOK_AGAIN, partial(self._ask, group, numbers))

    def _looked(self, group: LiveGroup, ids: Mapping[str, int], found: Mapping[str, TaskSnapshot]) -> None:
        """What nobody knows any more is lost to its group, unless this node remembers how it ended."""
        open_ = []
        for id_, number in ids.items():
            task = found.get(id_)
            if task is not None and task.status.is_final:
                self._ended(group, number, task)
            elif id_ in self._tasks:
                continue  # it has come into our hands meanwhile, and we hear of its end
            elif task is None:
                if number not in group.ends:
                    self._log.warning("member_unknown", task=id_, group=group.id)
                self._end(group, number, group.ends.get(number, Status.LOST))
            else:
                open_.append(number)  # of a dead term, and not judged yet
        if open_:
            self._ask_later(group, open_)
        if not group.has_begun:
            self.begin(group)

    # --- what follows ------------------------------------------------------------------------------------------

    def _follow(self, group: LiveGroup, consequences: Iterable[Let | CallOff]) -> None:
        for each in consequences:
            if isinstance(each, Let):
                self._let(group, each)
            else:
                self._drop(group, each)
        if group.machine.is_over and group.id in self._groups:
            self._over(group)

    def _over(self, group: LiveGroup) -> None:
        del self._groups[group.id]
        for id_ in group.ids:
            del self._members[id_]
        self._spool.end_group(group.id)
        self._log.info("group_over", group=group.id, members=len(group.ids))
        for told in group.waiters:
            told()

    def _drop(self, group: LiveGroup, called_off: CallOff) -> None:
        culprit = called_off.culprit
        how = group.ends.get(culprit, "over")
        reason = f"{group.calls[culprit].name} {group.ids[culprit][-8:]} is {how}"
        for number in called_off.numbers:
            state = self._tasks.get(group.ids[number])
            if state is not None:
                self._call_off(state, f"group {group.id[-8:]}", reason)

    def _call_off(self, state: TaskState, by: str, reason: str) -> None:
        asked = e.Asked(Action.STOP, by, reason[:500])
        # Later: it may be another end's effects that are being performed.
        event_id = f"{state.task.id}.called_off.{os.urandom(8).hex()}"
        self._loop.call(partial(self._tasks.feed, state.task.id, asked, event_id))

    def _let(self, group: LiveGroup, let: Let) -> None:
        handed: _Handed | None = None
        for number in let.numbers:
            call = group.machine.calls[number].plan
            assert isinstance(call, Call), "members are calls"
            if number in group.ends:
                continue
            if let.source is None or call.into is None:
                self._go(group.ids[number])
                continue
            handed = handed or _Handed(let.source, group.results)
            self._hand_on(group.ids[number], call.into, handed)

    def _go(self, task_id: str) -> None:
        self._tasks.unbar(task_id)
        self._intake.enqueue(task_id)

    def _hand_on(self, task_id: str, into: str, handed: "_Handed") -> None:
        """The submission has the result in it before the task may start; so a rerun has it, too."""
        state = self._tasks.get(task_id)
        if state is None or not state.may_start or state.task.attempt:
            self._go(task_id)  # it has had it
            return
        try:
            submission = self._completed(state, into, handed)
        except SpoolError as error:
            self._handed_on(task_id, into, handed, error)
        except (ChongError, ValueError, LookupError) as error:
            self._log.warning("nothing_handed_on", task=task_id, error=str(error))
            nothing = e.NothingHandedOn(f"parameter {into!r}, handed on: {error}")
            self._loop.call(partial(self._tasks.feed, task_id, nothing, f"{task_id}.nothing_handed_on"))
        else:
            self._spool.complete(submission, partial(self._handed_on, task_id, into, handed))

    def _completed(self, state: TaskState, into: str, handed: "_Handed") -> Any:
        task_id, name = state.task.id, state.task.name
        submission = self._spool.submission(task_id)
        if submission is None:
            raise Refused("the submission is not in the spool")
        whole = replace(submission, params={**submission.params, into: handed.value()})
        catalogue = self._intake.catalogue
        definition = None if catalogue is None else catalogue.tasks.get(name)
        return whole if definition is None else definition.read(whole)  # who has no definition fails by that

    def _handed_on(self, task_id: str, into: str, handed: "_Handed", error: SpoolError | None) -> None:
        if error is not None:  # a full disk: it waits, and is not forgotten
            self._handing.again(error, task=task_id)
            self._loop.later(LOOK_AGAIN, partial(self._hand_on, task_id, into, handed))
        else:
            self._handing.end()
            self._go(task_id)


class _Handed:
    """What a part has come to, put together once for all who ask for it."""

    def __init__(self, source: Part, results: Mapping[int, Any]) -> None:
        self._source = source
        self._results = results

    def value(self) -> Any:
        """LookupError when it is not known any more."""
        try:
            return result_of(self._source, self._results)
        except KeyError as missing:
            raise LookupError("the result is not known any more") from missing
