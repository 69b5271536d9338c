"""The look at a whole deployment, and its alerts, over any SQL."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from chong.store.alert import Alert, AlertChanges, Finding
from chong.store.survey import Survey
from chong.store.table_calls import T, TableCalls


class SurveyTables(TableCalls):
    # --- the deployment as a whole -----------------------------------------------------------------------

    def survey(self, *, still: timedelta) -> Survey:
        with self._surveying() as db:
            values = {"now": self._now(), "still": self._age(still), "node": None, "known": None}

            def rows(query: str) -> list[Any]:
                return self._fetched(db, self._queries[query], values)

            def read(convert: Callable[[Any], T], query: str) -> tuple[T, ...]:
                return tuple(self._readable(convert, rows(query)))

            store = rows("survey")[0]
            now = self._codec.moment_out(store["now"])
            return Survey(
                now=now,
                engine=store["engine"],
                engine_version=store["engine_version"],
                rebucketed_at=self._codec.rebucketed_at(store, self._on_unreadable, now),
                deployment=self._codec.deployment_from_rows(rows("deployment")),
                nodes=tuple(self._in_part(self._codec.node_from_row, rows("nodes"))),
                declarations=tuple(self._in_part(self._codec.declaration_from_row, rows("declarations"))),
                loads=read(self._codec.bucket_load_from_row, "bucket_loads"),
                catalogue=tuple(self._in_part(self._codec.catalogue_entry_from_row, rows("catalogue"))),
                work=read(self._codec.open_work_from_row, "survey_work"),
                commands=read(self._codec.open_commands_from_row, "survey_commands"),
                holds=self._holds(rows("changed_holds")),
            )

    def report_clock(self, term: str, ahead: timedelta) -> None:
        self._write("report_clock", term=term, ahead=self._codec.span_in(ahead))

    def report_findings(self, findings: Sequence[Finding], *, quiet: timedelta, event_id: str) -> AlertChanges:
        named = {(finding.kind, finding.subject): finding.detail for finding in findings}
        values = {
            "kinds": self._array(kind for kind, _ in named),
            "subjects": self._array(subject for _, subject in named),
            "details": self._array(named.values()),
            "quiet": self._age(quiet),
            "event_id": event_id,
        }
        with self._writing() as db:
            values["now"] = self._now()
            for part in ("lock", "seen", "raise", "clear"):
                db.execute(self._queries[f"report_findings_{part}"], values)
            raised, cleared = (
                db.execute(self._queries[f"report_findings_{part}"], values) for part in ("raised", "cleared")
            )
        read = self._codec.alert_from_row
        return AlertChanges(*(tuple(self._readable(read, found.fetchall())) for found in (raised, cleared)))

    def alerts(self, *, cleared: bool = False, limit: int = 1000) -> list[Alert]:
        return self._readable(self._codec.alert_from_row, self._rows("alerts", cleared=cleared, limit=limit))

    def acknowledge_alert(self, alert_id: int, by: str) -> Alert | None:
        self._write("acknowledge_alert", id=alert_id, by=by)
        rows = self._rows("acknowledge_alert_shown", id=alert_id)
        return self._codec.alert_from_row(rows[0]) if rows else None
