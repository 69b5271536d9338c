"""What programs on the node ask of groups: to take one, how one stands, to hear when it is over, to stop one."""

import json
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from chong.store.errors import ChongError, ConfigurationError, Refused
from chong.store.ids import SHOWN, is_part_of_id
from chong.store.model import Action
from chong.supervisor import events as e
from chong.supervisor.groups import Groups
from chong.supervisor.intake import Intake, Member
from chong.supervisor.live_group import LiveGroup, group_facts
from chong.supervisor.members import members_of
from chong.supervisor.operations import Operation, RequestSettled, Settled
from chong.supervisor.spool import GroupRow, Spool
from chong.supervisor.spool_file import SpoolError
from chong.supervisor.submission import REASON_LIMIT, check_id, check_text
from chong.supervisor.tasks import Tasks
from chong.supervisor.unknown_group import UnknownGroup
from chong.worker.options import NAME_LIMIT
from chong.worker.plan import Plan, PlanInvalid, from_json, to_json

WAITERS_LIMIT = 400
CANDIDATES = 10


class GroupRequests:
    """Lives in the loop's thread."""

    def __init__(self, *, groups: Groups, intake: Intake, spool: Spool, tasks: Tasks) -> None:
        self._groups = groups
        self._intake = intake
        self._spool = spool
        self._tasks = tasks
        self._waiting = 0

    @property
    def operations(self) -> dict[str, Operation]:
        """By name."""
        return {
            "submit_group": self._submit,
            "group": self._show,
            "wait_group": self._wait,
            "stop_group": self._stop,
        }

    # --- taking one --------------------------------------------------------------------------------------------

    def _submit(self, request: dict[str, Any], settled: RequestSettled) -> None:
        _check_names("submit_group", request, {"id", "plan"})
        check_id("id", request.get("id"))
        try:
            plan = from_json(request.get("plan"))
        except PlanInvalid as error:
            raise ConfigurationError(str(error)) from None
        group_id = str(request["id"])
        members = [Member(submission, call.into) for call, submission in members_of(group_id, plan)]
        self._intake.when_accepting(partial(self._take, group_id, plan, members, settled), settled)

    def _take(self, group_id: str, plan: Plan, members: list[Member], settled: RequestSettled) -> None:
        try:
            known = self._facts(group_id)
        except (ChongError, ValueError) as error:
            settled(Refused(f"group {group_id}: it cannot be told whether it was accepted before: {error}"))
            return
        if known is not None:
            settled({"group": known})
            return
        content = json.dumps(to_json(plan, with_params=False), separators=(",", ":"))
        self._intake.submit_group(
            group_id,
            content,
            members,
            on_kept=partial(self._kept, group_id, plan),
            settled=partial(self._answer, group_id, settled),
        )

    def _kept(self, group_id: str, plan: Plan) -> Callable[[], None]:
        """Its members wait from here on; it begins by what is returned, when they are in the node's hands."""
        return partial(self._groups.begin, self._groups.add(group_id, plan, time.time()))

    def _answer(self, group_id: str, settled: RequestSettled, error: ChongError | None) -> None:
        facts = self._facts(group_id) if error is None else None
        settled(error if error is not None else {"group": facts})

    # --- asking for one ----------------------------------------------------------------------------------------

    def _show(self, request: dict[str, Any], settled: RequestSettled) -> None:
        """By its id, or the beginning or the end of it."""
        _check_names("group", request, {"id"})
        settled({"group": self._found(request.get("id"))})

    def _wait(self, request: dict[str, Any], settled: Settled) -> None:
        _check_names("wait_group", request, {"id"})
        facts = self._found(request.get("id"))
        group = self._groups.get(facts["id"])
        if group is None:
            settled({"group": facts})
            return
        if self._waiting >= WAITERS_LIMIT:
            raise Refused(f"waiting programs: expected fewer than {WAITERS_LIMIT} for groups at one time on this node")
        self._waiting += 1
        over = partial(self._over, group, settled)
        group.waiters.append(over)
        settled.on_gone(partial(self._gone, group, over))

    def _over(self, group: LiveGroup, settled: Settled) -> None:
        self._waiting -= 1
        settled({"group": self._live_facts(group, time.time())})

    def _gone(self, group: LiveGroup, over: Callable[[], None]) -> None:
        if over in group.waiters:
            group.waiters.remove(over)
            self._waiting -= 1

    def _stop(self, request: dict[str, Any], settled: RequestSettled) -> None:
        """Each member that is not over is asked to stop; what that comes to, `wait_group` tells."""
        _check_names("stop_group", request, {"id", "by", "reason"})
        by, reason = request.get("by"), request.get("reason")
        check_text("by", by, NAME_LIMIT)
        if reason is not None:
            check_text("reason", reason, REASON_LIMIT)
        facts = self._found(request.get("id"))
        group = self._groups.get(facts["id"])
        for task_id in [] if group is None else group.ids:
            asked = e.Asked(Action.STOP, str(by), reason)
            self._tasks.feed(task_id, asked, f"{task_id}.asked.{os.urandom(8).hex()}")
        settled({"group": facts if group is None else self._live_facts(group)})

    # --- what is known -----------------------------------------------------------------------------------------

    def _found(self, part: object) -> dict[str, Any]:
        if not isinstance(part, str) or not part or not is_part_of_id(part):
            raise ConfigurationError(f"id: expected a group's id, or a part of one, got {str(part)[:SHOWN]!r}")
        try:
            facts = self._facts(part)
        except SpoolError as error:
            raise Refused(f"groups cannot be read at the moment: {error}") from error
        except ValueError as error:
            raise Refused(f"group {part}: its structure cannot be read: {error}") from error
        if facts is None:
            raise UnknownGroup(part, self._intake.admission.node)
        return facts

    def _facts(self, part: str) -> dict[str, Any] | None:
        """Refused when several fit; SpoolError or ValueError when nobody can tell."""
        found = {
            group.id: group for group in self._groups.all() if group.id.startswith(part) or group.id.endswith(part)
        }
        rows = {row.id: row for row in self._spool.groups_by_part(part, CANDIDATES + 1) if row.id not in found}
        fitting = [*found, *rows]
        if len(fitting) > 1:
            shown = ", ".join(fitting[:CANDIDATES])
            raise Refused(f"{part!r} fits {len(fitting)} groups; type more of the id: {shown}")
        if found:
            return self._live_facts(found[fitting[0]])
        return self._row_facts(rows[fitting[0]]) if rows else None

    def _live_facts(self, group: LiveGroup, ended_at: float | None = None) -> dict[str, Any]:
        return group_facts(group.id, group.plan, group.accepted_at, ended_at, self._groups.statuses(group))

    def _row_facts(self, row: GroupRow) -> dict[str, Any]:
        plan = from_json(json.loads(row.content))
        return group_facts(row.id, plan, row.accepted_at, row.ended_at, self._spool.member_ends(row.id))


def _check_names(op: str, request: dict[str, Any], known: set[str]) -> None:
    strangers = sorted(set(request) - known)
    if strangers:
        raise ConfigurationError(
            f"{op}: expected {', '.join(sorted(known))}, got {', '.join(map(repr, strangers))[:SHOWN]}"
        )
